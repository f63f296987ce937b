#include "sotto/core/formats/pickle_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "sotto/core/files/byte_reader.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

// A state dict takes about a dozen values per tensor.
constexpr size_t kMaxValues = size_t{1} << 21;
// Maximum number of open marks. State dicts have four.
constexpr size_t kMaxMarks = 200;
constexpr std::string_view kOrderedDict = "collections.OrderedDict";

// The opcodes that occur in a state dict, named as in Python's pickletools.
enum class Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersistentId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyDict = '}',
  kEmptyTuple = ')',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

// Opcodes that create objects of arbitrary classes: a pickle that runs code would use them.
constexpr std::array<std::pair<uint8_t, std::string_view>, 7> kRefusedOpcodes = {{
    {'i', "INST"},
    {'o', "OBJ"},
    {0x81, "NEWOBJ"},
    {0x82, "EXT1"},
    {0x83, "EXT2"},
    {0x84, "EXT4"},
    {0x92, "NEWOBJ_EX"},
}};

std::string name_of_opcode(uint8_t code) {
  for (const auto& [known, name] : kRefusedOpcodes) {
    if (known == code) return fmt::format("{} (0x{:02x})", name, code);
  }
  return fmt::format("0x{:02x}", code);
}

// Returns a name for an error message: short, and without terminal control characters.
std::string printable(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  std::string shown(text.substr(0, kMaxShown));
  std::ranges::replace_if(shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text.size() > kMaxShown ? shown + "..." : shown;
}

class PickleMachine {
 public:
  PickleMachine(std::span<const std::byte> bytes, std::span<const std::string_view> names,
                const std::filesystem::path& path)
      : names_(names), path_(path), in_(bytes, path, "its pickle") {}

  Pickle run() {
    while (true) {
      opcode_at_ = in_.at();
      const auto opcode = static_cast<Opcode>(in_.take_number<uint8_t>());
      if (opcode == Opcode::kStop) break;
      step(opcode);
    }
    pickle_.root_index = pop();
    if (!stack_.empty() || !marks_.empty()) broken("more than one object at its end");
    pickle_.num_bytes = in_.at();
    return std::move(pickle_);
  }

 private:
  void step(Opcode opcode) {
    switch (opcode) {
      case Opcode::kProto: in_.take(1); break;
      case Opcode::kFrame: in_.take(8); break;
      case Opcode::kMark: push_mark(); break;
      case Opcode::kEmptyTuple: push({.kind = PickleKind::kTuple}); break;
      case Opcode::kEmptyList: push({.kind = PickleKind::kList}); break;
      case Opcode::kEmptyDict: push({.kind = PickleKind::kDict}); break;
      case Opcode::kTuple: push_tuple(pop_to_mark()); break;
      case Opcode::kTuple1: push_tuple(pop_many(1)); break;
      case Opcode::kTuple2: push_tuple(pop_many(2)); break;
      case Opcode::kTuple3: push_tuple(pop_many(3)); break;
      case Opcode::kAppend: append(PickleKind::kList, pop_many(1)); break;
      case Opcode::kAppends: append(PickleKind::kList, pop_to_mark()); break;
      case Opcode::kSetItem: append(PickleKind::kDict, pop_many(2)); break;
      case Opcode::kSetItems: append(PickleKind::kDict, pop_to_mark()); break;
      case Opcode::kBinPut: memoize(in_.take_number<uint8_t>()); break;
      case Opcode::kLongBinPut: memoize(in_.take_number<uint32_t>()); break;
      case Opcode::kMemoize: memoize(memo_.size()); break;
      case Opcode::kBinGet: push_memo(in_.take_number<uint8_t>()); break;
      case Opcode::kLongBinGet: push_memo(in_.take_number<uint32_t>()); break;
      case Opcode::kGlobal: push_global(); break;
      case Opcode::kStackGlobal: push_stack_global(); break;
      case Opcode::kReduce: reduce(); break;
      case Opcode::kBuild: build(); break;
      case Opcode::kBinPersistentId:
        push({.kind = PickleKind::kPersistent, .items = pop_many(1)});
        break;
      default: push_constant(opcode);
    }
  }

  void push_constant(Opcode opcode) {
    switch (opcode) {
      case Opcode::kNone: push({.kind = PickleKind::kNone}); break;
      case Opcode::kNewTrue: push({.kind = PickleKind::kBool, .number = 1}); break;
      case Opcode::kNewFalse: push({.kind = PickleKind::kBool, .number = 0}); break;
      case Opcode::kBinInt: push_int(in_.take_number<int32_t>()); break;
      case Opcode::kBinInt1: push_int(in_.take_number<uint8_t>()); break;
      case Opcode::kBinInt2: push_int(in_.take_number<uint16_t>()); break;
      case Opcode::kLong1: push_long(in_.take_number<uint8_t>()); break;
      case Opcode::kLong4: push_long(in_.take_number<uint32_t>()); break;
      case Opcode::kBinFloat:
        in_.take(8);
        push({.kind = PickleKind::kFloat});
        break;
      case Opcode::kShortBinUnicode: push_text(in_.take_number<uint8_t>()); break;
      case Opcode::kBinUnicode: push_text(in_.take_number<uint32_t>()); break;
      case Opcode::kBinUnicode8: push_text(in_.take_number<uint64_t>()); break;
      default:
        forbidden(fmt::format("the opcode {}", name_of_opcode(static_cast<uint8_t>(opcode))));
    }
  }

  // --- errors

  [[noreturn]] void broken(const std::string& found) const {
    refuse_file(path_, fmt::format("{} (byte {} of its pickle)", found, opcode_at_),
                "a complete pickle");
  }

  [[noreturn]] void forbidden(const std::string& found) const {
    refuse_file(path_, fmt::format("{} (byte {} of its pickle)", found, opcode_at_),
                "a dict of tensors and nothing that could be run",
                "Only weights are read from such files. If you trust it, load it in Python and "
                "save it as safetensors.");
  }

  // --- the stack

  void push(PickleValue value) {
    if (pickle_.values.size() >= kMaxValues) {
      broken(fmt::format("more than {} objects", kMaxValues));
    }
    stack_.push_back(static_cast<uint32_t>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
  }

  void push_mark() {
    if (marks_.size() >= kMaxMarks)
      broken(fmt::format("it is nested more than {} levels deep", kMaxMarks));
    marks_.push_back(stack_.size());
  }

  std::vector<uint32_t> pop_many(size_t count) {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) broken("an opcode without its objects");
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<uint32_t> popped(first, stack_.end());
    stack_.erase(first, stack_.end());
    return popped;
  }

  uint32_t pop() { return pop_many(1).front(); }

  std::vector<uint32_t> pop_to_mark() {
    if (marks_.empty()) broken("the end of a list without its beginning");
    std::vector<uint32_t> popped = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return popped;
  }

  PickleValue& top() {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() == floor) broken("an opcode without its objects");
    return pickle_.values[stack_.back()];
  }

  void push_tuple(std::vector<uint32_t> items) {
    push({.kind = PickleKind::kTuple, .items = std::move(items)});
  }

  void append(PickleKind kind, const std::vector<uint32_t>& items) {
    PickleValue& target = top();
    if (target.kind != kind) broken(fmt::format("items for {}", describe(target)));
    if (kind == PickleKind::kDict && items.size() % 2 != 0) broken("a key without its value");
    target.items.insert(target.items.end(), items.begin(), items.end());
  }

  void memoize(uint64_t index) {
    top();
    if (memo_.size() >= kMaxValues) broken(fmt::format("more than {} objects", kMaxValues));
    memo_[index] = stack_.back();
  }

  void push_memo(uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) broken(fmt::format("the object {}, which it does not have", index));
    stack_.push_back(found->second);
  }

  // --- constants

  void push_int(int64_t number) { push({.kind = PickleKind::kInt, .number = number}); }

  // Two's complement of any length.
  void push_long(uint32_t num_bytes) {
    const std::string_view bytes = in_.take_text(num_bytes);
    if (bytes.size() > sizeof(int64_t)) {
      push({.kind = PickleKind::kBigInt, .text = bytes});
      return;
    }
    uint64_t number = !bytes.empty() && static_cast<uint8_t>(bytes.back()) >= 0x80 ? ~0ULL : 0;
    std::memcpy(&number, bytes.data(), bytes.size());
    push_int(static_cast<int64_t>(number));
  }

  void push_text(uint64_t num_bytes) {
    const std::string_view text = in_.take_text(num_bytes);
    if (!is_utf8(text)) broken("a string that is not UTF-8");
    push({.kind = PickleKind::kText, .text = text});
  }

  // --- globals: looked up in a list, and nowhere else

  std::string_view take_line() {
    const ByteReader start = in_;
    size_t length = 0;
    while (in_.take_number<char>() != '\n') ++length;
    return ByteReader(start).take_text(length);
  }

  void push_global() {
    const std::string_view module = take_line();
    push_name(fmt::format("{}.{}", module, take_line()));
  }

  void push_stack_global() {
    const std::vector<uint32_t> parts = pop_many(2);
    const PickleValue& module = pickle_.values[parts[0]];
    const PickleValue& name = pickle_.values[parts[1]];
    if (module.kind != PickleKind::kText || name.kind != PickleKind::kText) {
      broken("a global whose name is not a string");
    }
    push_name(fmt::format("{}.{}", module.text, name.text));
  }

  void push_name(const std::string& name) {
    const auto known = std::ranges::find(names_, name);
    if (known == names_.end() && name != kOrderedDict) {
      forbidden(fmt::format("the global '{}'", printable(name)));
    }
    push({.kind = PickleKind::kGlobal, .text = known == names_.end() ? kOrderedDict : *known});
  }

  void reduce() {
    const std::vector<uint32_t> parts = pop_many(2);
    const PickleValue& function = pickle_.values[parts[0]];
    const PickleValue& arguments = pickle_.values[parts[1]];
    if (function.kind != PickleKind::kGlobal) {
      forbidden(fmt::format("a call of {}", describe(function)));
    }
    if (arguments.kind != PickleKind::kTuple) broken("a call without a tuple of arguments");
    if (function.text != kOrderedDict) {
      push({.kind = PickleKind::kCall, .text = function.text, .items = {parts[1]}});
      return;
    }
    if (!arguments.items.empty()) broken("an OrderedDict that begins with items");
    push({.kind = PickleKind::kDict});
  }

  // Python sets attributes here: `_metadata` in the state dict of a module.
  void build() {
    pop();
    if (top().kind != PickleKind::kDict) {
      forbidden(fmt::format("attributes of {}", describe(top())));
    }
  }

  std::span<const std::string_view> names_;
  const std::filesystem::path& path_;
  ByteReader in_;
  size_t opcode_at_ = 0;
  Pickle pickle_;
  std::vector<uint32_t> stack_;
  // Stack sizes at the open marks.
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, uint32_t> memo_;
};

}  // namespace

Pickle read_pickle(std::span<const std::byte> bytes, std::span<const std::string_view> names,
                   const std::filesystem::path& path) {
  return PickleMachine(bytes, names, path).run();
}

std::string describe(const PickleValue& value) {
  switch (value.kind) {
    case PickleKind::kNone: return "None";
    case PickleKind::kBool: return "a boolean";
    case PickleKind::kInt:
    case PickleKind::kBigInt:
    case PickleKind::kFloat: return "a number";
    case PickleKind::kText: return "a string";
    case PickleKind::kTuple: return "a tuple";
    case PickleKind::kList: return "a list";
    case PickleKind::kDict: return "a dict";
    case PickleKind::kGlobal:
    case PickleKind::kCall: return fmt::format("a {}", value.text);
    case PickleKind::kPersistent: return "a storage";
  }
  return "an object";
}

}  // namespace sotto
