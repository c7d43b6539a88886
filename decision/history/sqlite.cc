#include "decision/history/sqlite.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace ccld::decision::history {
namespace {

// Readers and the writer of a WAL database do not wait for each other; what is left (a checkpoint, a recovery after a kill)
// takes milliseconds.
constexpr int busy_timeout_ms = 2000;

absl::StatusCode code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_FULL: return absl::StatusCode::kResourceExhausted;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return absl::StatusCode::kDataLoss;
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return absl::StatusCode::kAborted;
    case SQLITE_IOERR:
      // A full disk also shows where the shared memory of the log grows, or as a write that was cut short.
      return result == SQLITE_IOERR_SHMSIZE || result == SQLITE_IOERR_WRITE || result == SQLITE_IOERR_FSYNC ||
                     result == SQLITE_IOERR_SHMMAP
                 ? absl::StatusCode::kResourceExhausted
                 : absl::StatusCode::kUnavailable;
    default: return absl::StatusCode::kUnavailable;
  }
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

void Statement::bind(int index, int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }

void Statement::bind(int index, absl::string_view value) {
  sqlite3_bind_text64(statement_.get(), index, value.data() == nullptr ? "" : value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
}

void Statement::bind_null(int index) { sqlite3_bind_null(statement_.get(), index); }

absl::StatusOr<bool> Statement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  const absl::Status status = result == SQLITE_DONE ? absl::OkStatus() : database_->error(result, "");
  sqlite3_reset(statement_.get());
  if (!status.ok()) return status;
  return false;
}

absl::Status Statement::run() {
  const auto more = step();
  reset();
  return more.status();
}

void Statement::reset() { sqlite3_reset(statement_.get()); }

int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string Statement::text(int column) const {
  const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return text == nullptr ? "" : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

bool Statement::is_null(int column) const { return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL; }

absl::Status Database::error(int code, absl::string_view doing) const {
  std::string words = absl::StrCat("'", path_, "': ", doing, doing.empty() ? "" : ": ",
                                   handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_.get()));
  return absl::Status(code_of(code), absl::StrReplaceAll(words, {{"\n", " "}}));
}

absl::StatusOr<std::unique_ptr<Database>> Database::open(const std::string& path, Mode mode) {
  const auto attempt = [&](const std::string& name, int flags) -> absl::StatusOr<std::unique_ptr<Database>> {
    auto database = std::unique_ptr<Database>(new Database(path));
    sqlite3* handle = nullptr;
    const int result = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOMUTEX, nullptr);
    database->handle_.reset(handle);
    if (result != SQLITE_OK) return database->error(result, "cannot be opened");
    sqlite3_busy_timeout(handle, busy_timeout_ms);
    // The file is read only now: what is wrong with it shows here.
    if (const auto version = database->integer("PRAGMA schema_version"); !version.ok()) return version.status();
    return database;
  };
  if (mode == Mode::create) return attempt(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  auto database = attempt(path, SQLITE_OPEN_READONLY);
  if (database.ok() || absl::IsDataLoss(database.status())) return database;
  // Without permission to write into the folder the log's shared memory cannot be made.
  const std::string uri = absl::StrCat(
      "file:", absl::StrReplaceAll(path, {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}}), "?immutable=1");
  auto fixed = attempt(uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
  return fixed.ok() ? std::move(fixed) : std::move(database);
}

Database::~Database() = default;

absl::StatusOr<Statement> Database::prepare(absl::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int result = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()), &statement, nullptr);
  Statement s;
  s.database_ = this;
  s.statement_.reset(statement);
  if (result != SQLITE_OK) return error(result, "");
  return s;
}

absl::Status Database::run(absl::string_view sql) {
  const int result = sqlite3_exec(handle_.get(), std::string(sql).c_str(), nullptr, nullptr, nullptr);
  return result == SQLITE_OK ? absl::OkStatus() : error(result, "");
}

absl::StatusOr<int64_t> Database::integer(absl::string_view sql) {
  auto statement = prepare(sql);
  if (!statement.ok()) return statement.status();
  const auto row = statement->step();
  if (!row.ok()) return row.status();
  return *row ? statement->integer(0) : 0;
}

int64_t Database::changes() const { return sqlite3_changes64(handle_.get()); }

absl::StatusOr<Transaction> Transaction::begin(Database& database) {
  if (absl::Status s = database.run("BEGIN IMMEDIATE"); !s.ok()) return s;
  return Transaction(database);
}

absl::StatusOr<Transaction> Transaction::begin_reading(Database& database) {
  if (absl::Status s = database.run("BEGIN"); !s.ok()) return s;
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() {
  // SQLite has rolled back by itself after some errors; then this one says so and nothing is wrong.
  if (database_ != nullptr) database_->run("ROLLBACK").IgnoreError();
}

absl::Status Transaction::commit() {
  absl::Status status = database_->run("COMMIT");
  if (status.ok()) database_ = nullptr;
  return status;
}

}  // namespace ccld::decision::history
