// Reads a pickle, Python's object format, without running it. A pickle is a program: where Python
// would look up a function by name and call it, this reader creates a value that describes the
// call, and a name that is not on the caller's list is an error. No opcode and no name can do more.
//
//   const Pickle pickle = read_pickle(bytes, kNames, path);
//   if (pickle.root().kind == PickleKind::kDict) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sotto {

enum class PickleKind {
  kNone,
  kBool,
  kInt,
  kBigInt,  // more than 64 bits
  kFloat,   // its value is not kept
  kText,
  kTuple,
  kList,
  kDict,        // includes collections.OrderedDict
  kGlobal,      // a name of the caller's list
  kCall,        // a call of a global
  kPersistent,  // an object that is stored outside of the pickle
};

// One object of a pickle. Objects refer to each other by index, so that a list can contain itself.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  // Value of kBool and kInt.
  int64_t number = 0;
  // Text of kText, in UTF-8; the name of a kGlobal and of the callee of a kCall; the bytes of a
  // kBigInt, lowest first. Refers to the memory that was read.
  std::string_view text = {};
  // Items of kTuple and kList; key, value, key, value, ... of kDict; the argument tuple of kCall;
  // the name of kPersistent.
  std::vector<uint32_t> items = {};
};

struct Pickle {
  const PickleValue& root() const { return values[root_index]; }
  // Returns the i-th item of a value.
  const PickleValue& item(const PickleValue& value, size_t i) const {
    return values[value.items[i]];
  }

  std::vector<PickleValue> values;
  uint32_t root_index = 0;
  // Number of bytes consumed: other data may follow.
  size_t num_bytes = 0;
};

// Reads one pickle of protocol 2 to 5. `names` are the globals that may occur
// ("torch.FloatStorage") in addition to collections.OrderedDict; the values refer to both
// arguments. Attributes of an OrderedDict other than its items are ignored. Throws DataError where
// the pickle is broken, too large, or holds anything but the kinds above.
Pickle read_pickle(std::span<const std::byte> bytes, std::span<const std::string_view> names,
                   const std::filesystem::path& path);

// Describes a value for messages: "a list", "a torch._utils._rebuild_tensor_v2".
std::string describe(const PickleValue& value);

}  // namespace sotto
