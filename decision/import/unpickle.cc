#include "decision/import/unpickle.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "decision/import/limits.h"

namespace ccld::decision::dumps {
namespace {

// Names are those of Python's pickletools.
enum Opcode : uint8_t {
  op_mark = '(',
  op_stop = '.',
  op_binint = 'J',
  op_binint1 = 'K',
  op_binint2 = 'M',
  op_none = 'N',
  op_binunicode = 'X',
  op_binbytes = 'B',
  op_short_binbytes = 'C',
  op_empty_dict = '}',
  op_empty_list = ']',
  op_empty_tuple = ')',
  op_append = 'a',
  op_appends = 'e',
  op_setitem = 's',
  op_setitems = 'u',
  op_tuple = 't',
  op_binget = 'h',
  op_long_binget = 'j',
  op_binput = 'q',
  op_long_binput = 'r',
  op_binfloat = 'G',
  op_proto = 0x80,
  op_tuple1 = 0x85,
  op_tuple2 = 0x86,
  op_tuple3 = 0x87,
  op_newtrue = 0x88,
  op_newfalse = 0x89,
  op_long1 = 0x8a,
  op_short_binunicode = 0x8c,
  op_binunicode8 = 0x8d,
  op_binbytes8 = 0x8e,
  op_memoize = 0x94,
  op_frame = 0x95,
};

// Opcodes that are refused, and why; what is not here is refused as well.
struct Refused {
  uint8_t opcode;
  const char* name;
  const char* why;
};
constexpr const char* runs_code = "names or runs code, which a dump never needs";
constexpr const char* old_form = "is of a protocol before 2";
constexpr Refused refused[] = {
    {'c', "GLOBAL", runs_code},
    {0x93, "STACK_GLOBAL", runs_code},
    {'R', "REDUCE", runs_code},
    {'b', "BUILD", runs_code},
    {'i', "INST", runs_code},
    {'o', "OBJ", runs_code},
    {0x81, "NEWOBJ", runs_code},
    {0x92, "NEWOBJ_EX", runs_code},
    {'P', "PERSID", runs_code},
    {'Q', "BINPERSID", runs_code},
    {0x82, "EXT1", runs_code},
    {0x83, "EXT2", runs_code},
    {0x84, "EXT4", runs_code},
    {0x97, "NEXT_BUFFER", "refers to data outside of the file"},
    {0x98, "READONLY_BUFFER", "refers to data outside of the file"},
    {0x8f, "EMPTY_SET", "makes a set, which no dump has"},
    {0x90, "ADDITEMS", "makes a set, which no dump has"},
    {0x91, "FROZENSET", "makes a set, which no dump has"},
    {0x96, "BYTEARRAY8", "makes a byte array, which no dump has"},
    {0x8b, "LONG4", "makes an integer beyond 64 bits"},
    {'0', "POP", "is needed by structures that contain themselves only"},
    {'1', "POP_MARK", "is needed by structures that contain themselves only"},
    {'2', "DUP", "is needed by no dump"},
    {'I', "INT", old_form},
    {'L', "LONG", old_form},
    {'F', "FLOAT", old_form},
    {'S', "STRING", old_form},
    {'V', "UNICODE", old_form},
    {'T', "BINSTRING", "makes a text of Python 2"},
    {'U', "SHORT_BINSTRING", "makes a text of Python 2"},
    {'d', "DICT", old_form},
    {'l', "LIST", old_form},
    {'g', "GET", old_form},
    {'p', "PUT", old_form},
};

std::string opcode_text(uint8_t opcode) {
  for (const Refused& r : refused)
    if (r.opcode == opcode)
      return absl::StrCat("opcode ", r.name, " (0x", absl::Hex(opcode, absl::kZeroPad2), ") ", r.why);
  return absl::StrCat("opcode 0x", absl::Hex(opcode, absl::kZeroPad2), " is not known");
}

// A list or dict may be filled after it was pushed and remembered, but only until it becomes part of another value:
// whatever is added to it after that makes a circle, or something that no writer makes.
struct Open {
  enum Kind { list, dict } kind = list;
  List items;
  Dict pairs;
  ValuePtr sealed;  // once it is part of another value
};
// What the stack holds: a finished value, or a container that is still filled.
struct Slot {
  ValuePtr value;
  std::shared_ptr<Open> open;
};

class Machine {
 public:
  explicit Machine(absl::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<ValuePtr> run() {
    while (!result_) {
      op_at_ = at_;
      std::optional<uint64_t> opcode = number(1);
      if (opcode.has_value()) step(static_cast<uint8_t>(*opcode));
      if (!status_.ok()) return status_;
    }
    if (at_ != bytes_.size()) return error(at_, "there are bytes after the end of the pickle");
    return result_;
  }

 private:
  static absl::Status error(size_t at, absl::string_view what) {
    return absl::DataLossError(absl::StrCat("byte ", at, ": ", what));
  }
  void fail(absl::string_view what) {
    if (status_.ok()) status_ = error(op_at_, what);
  }

  std::optional<absl::string_view> take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      fail(absl::StrCat("the file ends within a value: ", count, " bytes are wanted, ", bytes_.size() - at_,
                        " are left"));
      return std::nullopt;
    }
    const absl::string_view out = bytes_.substr(at_, count);
    at_ += count;
    return out;
  }
  // Little-endian, as all integers of a pickle.
  std::optional<uint64_t> number(size_t size) {
    const auto bytes = take(size);
    if (!bytes) return std::nullopt;
    uint64_t out = 0;
    for (size_t i = size; i-- > 0;) out = out << 8 | static_cast<uint8_t>((*bytes)[i]);
    return out;
  }

  void push(Value::Data data) {
    if (++values_ > values_max) return fail(absl::StrCat("more than ", values_max, " values"));
    auto value = std::make_shared<const Value>(std::move(data));
    if (value->depth() > depth_max) return fail(absl::StrCat("containers are nested more than ", depth_max, " deep"));
    if (value->expanded() > values_expanded_max)
      return fail(absl::StrCat("written out these would be more than ", values_expanded_max, " values"));
    stack_.push_back({std::move(value), nullptr});
  }
  void push_open(Open::Kind kind) {
    if (++values_ > values_max) return fail(absl::StrCat("more than ", values_max, " values"));
    auto open = std::make_shared<Open>();
    open->kind = kind;
    stack_.push_back({nullptr, std::move(open)});
  }
  void push_text(std::optional<uint64_t> size) {
    if (!size) return;
    if (const auto text = take(*size)) push(std::string(*text));
  }

  // The last value of the stack, finished; nullptr: an error.
  ValuePtr pop(size_t floor) {
    if (stack_.size() <= floor) {
      fail("the stack is empty where a value is wanted");
      return nullptr;
    }
    Slot slot = std::move(stack_.back());
    stack_.pop_back();
    return sealed(std::move(slot));
  }
  ValuePtr sealed(Slot slot) {
    if (!slot.open) return slot.value;
    Open& open = *slot.open;
    if (open.sealed) return open.sealed;
    auto value = open.kind == Open::list ? std::make_shared<const Value>(std::move(open.items))
                                         : std::make_shared<const Value>(std::move(open.pairs));
    if (value->depth() > depth_max) {
      fail(absl::StrCat("containers are nested more than ", depth_max, " deep"));
      return nullptr;
    }
    if (value->expanded() > values_expanded_max) {
      fail(absl::StrCat("written out these would be more than ", values_expanded_max, " values"));
      return nullptr;
    }
    open.sealed = value;
    return value;
  }
  // What a MARK and the last values of the stack enclose, in order.
  bool pop_marked(List& out) {
    if (marks_.empty()) {
      fail("there is no mark");
      return false;
    }
    const size_t floor = marks_.back();
    marks_.pop_back();
    return pop_to(floor, out);
  }
  bool pop_to(size_t floor, List& out) {
    if (stack_.size() < floor) {
      fail("the stack is empty where a value is wanted");
      return false;
    }
    out.reserve(stack_.size() - floor);
    for (size_t i = floor; i < stack_.size(); ++i) {
      ValuePtr value = sealed(std::move(stack_[i]));
      if (!value) return false;
      out.push_back(std::move(value));
    }
    stack_.resize(floor);
    return true;
  }
  // No value may be taken from below the last mark.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void make_tuple(size_t size) {
    List items;
    if (stack_.size() < floor() + size) return fail("the stack is empty where a value is wanted");
    if (pop_to(stack_.size() - size, items)) push(std::move(items));
  }
  // The container that items are added to.
  Open* target(Open::Kind kind) {
    Open* open = stack_.size() > floor() ? stack_.back().open.get() : nullptr;
    if (open == nullptr || open->kind != kind) {
      fail(kind == Open::list ? "there is no list to append to" : "there is no dict to add to");
      return nullptr;
    }
    if (open->sealed) {
      fail("a container contains itself, or is added to after it became part of another one");
      return nullptr;
    }
    return open;
  }
  void append(List items) {
    if (Open* list = target(Open::list))
      list->items.insert(list->items.end(), std::make_move_iterator(items.begin()),
                         std::make_move_iterator(items.end()));
  }
  void set(List items) {
    Open* dict = target(Open::dict);
    if (dict == nullptr) return;
    if (items.size() % 2 != 0) return fail("a key has no value");
    for (size_t i = 0; i < items.size(); i += 2) {
      if (items[i]->text() == nullptr && items[i]->integer() == nullptr)
        return fail(absl::StrCat("the key of a dict is ", items[i]->kind()));
      dict->pairs.emplace_back(std::move(items[i]), std::move(items[i + 1]));
    }
  }

  // Both writers number what they remember from 0 on, without gaps; more entries than values make no sense.
  void remember(std::optional<uint64_t> index) {
    if (!index) return;
    if (stack_.size() <= floor()) return fail("there is nothing to remember");
    if (*index > memo_.size() || *index >= values_max)
      return fail(absl::StrCat("memo entry ", *index, " follows entry ", memo_.size()));
    if (*index == memo_.size()) memo_.emplace_back();
    memo_[*index] = stack_.back();
  }
  void recall(std::optional<uint64_t> index) {
    if (!index) return;
    if (*index >= memo_.size()) return fail(absl::StrCat("memo entry ", *index, " was never made"));
    if (++values_ > values_max) return fail(absl::StrCat("more than ", values_max, " values"));
    stack_.push_back(memo_[*index]);
  }

  void push_long(std::optional<uint64_t> size) {
    if (!size) return;
    if (*size > sizeof(uint64_t)) return fail("an integer is longer than 64 bits");
    const auto raw = number(*size);
    if (!raw) return;
    const unsigned unused_bits = 64 - 8 * static_cast<unsigned>(*size);
    // The sign is that of the highest byte that is there.
    push(*size == 0 ? int64_t{0} : static_cast<int64_t>(*raw << unused_bits) >> unused_bits);
  }
  void push_double() {
    const auto bytes = take(sizeof(double));
    if (!bytes) return;
    uint64_t raw = 0;  // big-endian, as the only one
    for (const char c : *bytes) raw = raw << 8 | static_cast<uint8_t>(c);
    push(std::bit_cast<double>(raw));
  }

  void step(uint8_t opcode) {
    List items;
    switch (opcode) {
      case op_proto:
        if (const auto version = number(1); version && (*version < 2 || *version > 4 || op_at_ != 0))
          fail(absl::StrCat("protocol ", *version, " is not one of 2 to 4, or stands in the middle"));
        break;
      case op_frame: number(8); break;  // only says how much to read ahead
      case op_none: push(None{}); break;
      case op_newtrue: push(true); break;
      case op_newfalse: push(false); break;
      case op_binint:
        if (const auto n = number(4)) push(int64_t{static_cast<int32_t>(*n)});
        break;
      case op_binint1:
        if (const auto n = number(1)) push(static_cast<int64_t>(*n));
        break;
      case op_binint2:
        if (const auto n = number(2)) push(static_cast<int64_t>(*n));
        break;
      case op_long1: push_long(number(1)); break;
      case op_binfloat: push_double(); break;
      case op_short_binunicode:
      case op_short_binbytes: push_text(number(1)); break;
      case op_binunicode:
      case op_binbytes: push_text(number(4)); break;
      case op_binunicode8:
      case op_binbytes8: push_text(number(8)); break;
      case op_mark:
        // A mark that encloses nothing costs a byte of the file and a word here.
        if (marks_.size() >= static_cast<size_t>(depth_max) * 2)
          fail(absl::StrCat("containers are nested more than ", depth_max, " deep"));
        marks_.push_back(stack_.size());
        break;
      case op_empty_list: push_open(Open::list); break;
      case op_empty_dict: push_open(Open::dict); break;
      case op_empty_tuple: push(List{}); break;
      case op_tuple1: make_tuple(1); break;
      case op_tuple2: make_tuple(2); break;
      case op_tuple3: make_tuple(3); break;
      case op_tuple:
        if (pop_marked(items)) push(std::move(items));
        break;
      case op_append:
        if (ValuePtr value = pop(floor())) append({std::move(value)});
        break;
      case op_appends:
        if (pop_marked(items)) append(std::move(items));
        break;
      case op_setitem: {
        ValuePtr value = pop(floor()), key = status_.ok() ? pop(floor()) : nullptr;
        if (key) set({std::move(key), std::move(value)});
        break;
      }
      case op_setitems:
        if (pop_marked(items)) set(std::move(items));
        break;
      case op_binput: remember(number(1)); break;
      case op_long_binput: remember(number(4)); break;
      case op_memoize: remember(memo_.size()); break;
      case op_binget: recall(number(1)); break;
      case op_long_binget: recall(number(4)); break;
      case op_stop:
        result_ = pop(floor());
        if (result_ && (!stack_.empty() || !marks_.empty())) fail("the pickle ends with values left over");
        break;
      default: fail(opcode_text(opcode));
    }
  }

  absl::string_view bytes_;
  size_t at_ = 0, op_at_ = 0, values_ = 0;
  std::vector<Slot> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<Slot> memo_;
  ValuePtr result_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<ValuePtr> unpickle(absl::string_view bytes) {
  if (bytes.empty() || static_cast<uint8_t>(bytes[0]) != op_proto)
    return absl::DataLossError("byte 0: this is no pickle of protocol 2 or later");
  return Machine(bytes).run();
}

}  // namespace ccld::decision::dumps
