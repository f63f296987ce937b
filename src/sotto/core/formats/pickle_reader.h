// Reads a pickle, Python's format of objects, without running it. A pickle is a program: where
// Python would look up a function by its name and call it, this makes a value that says so, and a
// name that is not on the caller's list ends the reading. No opcode and no name can do more.
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
  kBigInt,  // beyond 64 bits
  kFloat,   // its value is not kept
  kText,
  kTuple,
  kList,
  kDict,        // collections.OrderedDict too
  kGlobal,      // a name of the caller's list
  kCall,        // of a global
  kPersistent,  // an object that is stored outside of the pickle
};

// One object of a pickle. Objects name each other by their index, so that a list that holds itself
// is as good as any.
struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  // Of kBool and kInt.
  int64_t number = 0;
  // Of kText, in UTF-8; the name of a kGlobal and of what a kCall calls; the bytes of a kBigInt,
  // lowest first. In the memory that was read.
  std::string_view text = {};
  // Of kTuple and kList; key, value, key, value, ... of kDict; the tuple of arguments of kCall; the
  // name of kPersistent.
  std::vector<uint32_t> items = {};
};

struct Pickle {
  const PickleValue& root() const { return values[root_index]; }
  // The i-th item of a value.
  const PickleValue& item(const PickleValue& value, size_t i) const {
    return values[value.items[i]];
  }

  std::vector<PickleValue> values;
  uint32_t root_index = 0;
  // What it took of the memory: something else may follow.
  size_t num_bytes = 0;
};

// Reads one pickle of protocol 2 to 5. `names` are the globals that may occur
// ("torch.FloatStorage") besides collections.OrderedDict; the values refer to both arguments. What
// is set on an OrderedDict besides its items is left out. Throws DataError where the pickle is
// broken, too large, or holds anything but the kinds above.
Pickle read_pickle(std::span<const std::byte> bytes, std::span<const std::string_view> names,
                   const std::filesystem::path& path);

// "a list", "a torch._utils._rebuild_tensor_v2": for messages.
std::string describe(const PickleValue& value);

}  // namespace sotto
