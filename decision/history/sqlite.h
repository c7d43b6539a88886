// SQLite's C interface with owners for its handles and absl::Status for its result codes.
//
//   auto db = Database::open(path, Database::Mode::create);
//   Statement insert = ...prepare("INSERT INTO t VALUES(?, ?)");
//   insert.bind(1, 7); insert.bind(2, "text"); insert.run();
//
// Errors, by what can be done about them: ResourceExhausted (disk full), DataLoss (damaged, or no database), Aborted (another
// process holds it), Unavailable (everything else). One line: the path, what was done, SQLite's words.
// Threads: a connection and its statements belong to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ccld::decision::history {

class Database;

// Compiled once, run any number of times. May not outlive its database.
class Statement {
 public:
  Statement() = default;

  // Parameters count from 1. Text is copied.
  void bind(int index, int64_t value);
  void bind(int index, absl::string_view value);
  void bind_null(int index);

  // True: there is a row, whose columns can be read. False: done, and the statement can be bound and run again.
  absl::StatusOr<bool> step();
  // Of a statement without rows: runs it once.
  absl::Status run();
  void reset();  // when not all rows were read

  // Columns count from 0.
  int64_t integer(int column) const;
  std::string text(int column) const;  // empty for NULL
  bool is_null(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt*) const;
  };
  Database* database_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  // create: to write, made if it is not there. read: never changes the file; where its folder cannot be written either,
  // without locks (SQLite's "immutable"), which is right as long as no service writes.
  enum class Mode { create, read };
  static absl::StatusOr<std::unique_ptr<Database>> open(const std::string& path, Mode);
  Database(const Database&) = delete;
  ~Database();

  absl::StatusOr<Statement> prepare(absl::string_view sql);
  absl::Status run(absl::string_view sql);                  // without parameters and rows
  absl::StatusOr<int64_t> integer(absl::string_view sql);   // of the first row; 0 if there is none
  int64_t changes() const;                                  // rows that the newest statement changed
  const std::string& path() const { return path_; }

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3*) const;
  };
  explicit Database(std::string path) : path_(std::move(path)) {}
  absl::Status error(int code, absl::string_view doing) const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

// All or nothing: what is not committed is rolled back.
class Transaction {
 public:
  static absl::StatusOr<Transaction> begin(Database&);
  // Sees one state, and needs nothing of the disk: a full one can be read.
  static absl::StatusOr<Transaction> begin_reading(Database&);
  Transaction(Transaction&&) noexcept;
  ~Transaction();
  absl::Status commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;  // nullptr: over
};

}  // namespace ccld::decision::history
