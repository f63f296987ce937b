#include "sotto/core/formats/torch_state_dict.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "sotto/core/files/mapped_file.h"

namespace sotto {

namespace {

// PyTorch's limit per tensor. A pickle can refer to one long tuple or text many times, so
// everything that is copied must be short.
constexpr size_t kMaxDimensions = 64;
// Keys are numbers: indices or addresses.
constexpr size_t kMaxKeyBytes = 100;

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr std::string_view kParameter = "torch.nn.parameter.Parameter";

struct StorageClass {
  std::string_view name;
  int64_t bytes;
  std::optional<TensorType> type;
};

// Includes classes whose values are unsupported: the start of the next storage depends on their
// size, and the error names the tensor.
constexpr std::array kStorageClasses = {
    StorageClass{"torch.FloatStorage", 4, TensorType::kFloat32},
    StorageClass{"torch.HalfStorage", 2, TensorType::kFloat16},
    StorageClass{"torch.BFloat16Storage", 2, TensorType::kBFloat16},
    StorageClass{"torch.DoubleStorage", 8, TensorType::kFloat64},
    StorageClass{"torch.LongStorage", 8, TensorType::kInt64},
    StorageClass{"torch.IntStorage", 4, TensorType::kInt32},
    StorageClass{"torch.ShortStorage", 2, TensorType::kInt16},
    StorageClass{"torch.ByteStorage", 1, TensorType::kUint8},
    StorageClass{"torch.BoolStorage", 1, TensorType::kBool},
    StorageClass{"torch.CharStorage", 1, std::nullopt},
    StorageClass{"torch.ComplexFloatStorage", 8, std::nullopt},
    StorageClass{"torch.ComplexDoubleStorage", 16, std::nullopt},
};

constexpr std::array kFunctions = {kRebuildTensor, kRebuildParameter, kParameter};

// Keys under which training programs store the state dict in a larger dict.
constexpr std::array<std::string_view, 3> kNestedKeys = {"state_dict", "model_state_dict", "model"};

constexpr auto kNames = [] {
  std::array<std::string_view, kStorageClasses.size() + kFunctions.size()> names;
  auto* at = std::ranges::copy(kFunctions, names.begin()).out;
  for (const StorageClass& storage : kStorageClasses) *at++ = storage.name;
  return names;
}();

// Returns the value of a text key; nullptr if there is none.
const PickleValue* find_key(const Pickle& pickle, const PickleValue& dict, std::string_view key) {
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& known = pickle.item(dict, i);
    if (known.kind == PickleKind::kText && known.text == key) return &pickle.item(dict, i + 1);
  }
  return nullptr;
}

bool is_tensor(const PickleValue& value) {
  return value.kind == PickleKind::kCall &&
         std::ranges::find(kFunctions, value.text) != kFunctions.end();
}

bool holds_tensors(const Pickle& pickle, const PickleValue& dict) {
  for (size_t i = 1; i < dict.items.size(); i += 2) {
    if (is_tensor(pickle.item(dict, i))) return true;
  }
  return false;
}

// Form: ("storage", torch.FloatStorage, key, "cpu", number of values), followed in the older format
// by None, or by a view in files before PyTorch 0.4.
bool is_storage_name(const Pickle& pickle, const PickleValue& value) {
  if (value.kind != PickleKind::kTuple) return false;
  const size_t size = value.items.size();
  const auto is = [&](size_t i, PickleKind kind) { return pickle.item(value, i).kind == kind; };
  return (size == 5 || (size == 6 && is(5, PickleKind::kNone))) && is(0, PickleKind::kText) &&
         pickle.item(value, 0).text == "storage" && is(1, PickleKind::kGlobal) &&
         is(2, PickleKind::kText) && pickle.item(value, 2).text.size() <= kMaxKeyBytes &&
         is(4, PickleKind::kInt) && pickle.item(value, 4).number >= 0;
}

class StateDictReader {
 public:
  StateDictReader(const Pickle& pickle, const TorchStorages& storages,
                  const std::filesystem::path& path)
      : pickle_(pickle), storages_(storages), path_(path) {}

  std::vector<StoredTensor> read() const {
    const PickleValue& dict = find_dict();
    std::vector<StoredTensor> tensors;
    std::set<std::string_view> names;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
      const PickleValue& key = pickle_.item(dict, i);
      if (key.kind != PickleKind::kText) {
        refuse_file(path_, fmt::format("{} for the name of a tensor", describe(key)), "a string");
      }
      if (!names.insert(key.text).second) {
        refuse_file(path_, fmt::format("two tensors '{}'", key.text), "each name once");
      }
      tensors.push_back(read_tensor(std::string(key.text), pickle_.item(dict, i + 1)));
    }
    return tensors;
  }

 private:
  const PickleValue& find_dict() const {
    const PickleValue& root = pickle_.root();
    const std::string expected =
        fmt::format("a dict of tensors, or one below {}", fmt::join(kNestedKeys, ", "));
    if (root.kind != PickleKind::kDict) refuse_file(path_, describe(root), expected);
    if (root.items.empty() || holds_tensors(pickle_, root)) return root;
    for (const std::string_view key : kNestedKeys) {
      const PickleValue* nested = find_key(pickle_, root, key);
      if (nested != nullptr && nested->kind == PickleKind::kDict) return *nested;
    }
    refuse_file(path_, "a dict without tensors", expected);
  }

  [[noreturn]] void complain(const std::string& name, const std::string& found,
                             std::string expected) const {
    refuse_file(path_, fmt::format("the tensor '{}' has {}", name, found), std::move(expected));
  }

  // Returns the tensor that a parameter wraps; nullptr for other values.
  const PickleValue* inside_parameter(const PickleValue& value) const {
    const bool is_parameter = value.text == kRebuildParameter || value.text == kParameter;
    if (value.kind != PickleKind::kCall || !is_parameter) return nullptr;
    const PickleValue& arguments = pickle_.item(value, 0);
    return arguments.items.empty() ? nullptr : &pickle_.item(arguments, 0);
  }

  // Arguments: storage, offset, shape, stride, requires-gradient flag, hooks; further ones would
  // change the values.
  bool is_plain(const PickleValue& arguments) const {
    const size_t count = arguments.items.size();
    if (count < 6 || count > 7 || pickle_.item(arguments, 0).kind != PickleKind::kPersistent) {
      return false;
    }
    if (count == 6) return true;
    const PickleValue& changes = pickle_.item(arguments, 6);
    return changes.kind == PickleKind::kNone ||
           (changes.kind == PickleKind::kDict && changes.items.empty());
  }

  StoredTensor read_tensor(std::string name, const PickleValue& outer) const {
    const PickleValue* inside = inside_parameter(outer);
    const PickleValue& value = inside == nullptr ? outer : *inside;
    if (value.kind != PickleKind::kCall || value.text != kRebuildTensor) {
      refuse_file(path_, fmt::format("'{}' is {}", name, describe(value)), "a tensor");
    }
    const PickleValue& arguments = pickle_.item(value, 0);
    if (!is_plain(arguments)) {
      complain(name, "other parts than those of a plain tensor",
               "storage, offset, shape and stride");
    }
    const PickleValue& storage_name = pickle_.item(pickle_.item(arguments, 0), 0);
    const std::string_view key = pickle_.item(storage_name, 2).text;
    const TorchStorage& storage = storages_.find(key)->second;
    if (!storage.type) {
      complain(name, fmt::format("values of a {}", storage.class_name),
               "floats, integers of 16, 32 or 64 bits, bytes or booleans");
    }
    StoredTensor tensor{.name = std::move(name),
                        .storage_key = key,
                        .type = *storage.type,
                        .shape = read_numbers(arguments, 2),
                        .stride = read_numbers(arguments, 3)};
    const PickleValue& offset = pickle_.item(arguments, 1);
    tensor.offset = offset.kind == PickleKind::kInt ? offset.number : -1;
    check_range(tensor, storage);
    return tensor;
  }

  // Returns a short tuple of numbers; {-1}, which is neither a valid shape nor a stride, for
  // anything else.
  std::vector<int64_t> read_numbers(const PickleValue& arguments, size_t i) const {
    const PickleValue& tuple = pickle_.item(arguments, i);
    if (tuple.kind != PickleKind::kTuple || tuple.items.size() > kMaxDimensions) return {-1};
    std::vector<int64_t> numbers;
    for (const uint32_t item : tuple.items) {
      const PickleValue& number = pickle_.values[item];
      numbers.push_back(number.kind == PickleKind::kInt ? number.number : -1);
    }
    return numbers;
  }

  // Checks that every value of the tensor is inside its storage.
  void check_range(const StoredTensor& tensor, const TorchStorage& storage) const {
    const auto is_negative = [](int64_t number) { return number < 0; };
    if (tensor.offset < 0 || tensor.shape.size() != tensor.stride.size() ||
        std::ranges::any_of(tensor.shape, is_negative) ||
        std::ranges::any_of(tensor.stride, is_negative)) {
      complain(
          tensor.name, location_of(tensor),
          fmt::format("up to {} non-negative integers, with one stride per size", kMaxDimensions));
    }
    if (!num_bytes(tensor.type, tensor.shape)) {
      complain(tensor.name, location_of(tensor), "a size that can be counted");
    }
    if (std::ranges::find(tensor.shape, 0) != tensor.shape.end()) return;
    int64_t last = tensor.offset;
    bool fits = true;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      int64_t reach = 0;
      fits = fits && !__builtin_mul_overflow(tensor.shape[d] - 1, tensor.stride[d], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    if (!fits || last >= storage.num_values) {
      complain(tensor.name, location_of(tensor),
               fmt::format("a range within the {} values of its storage", storage.num_values));
    }
  }

  static std::string location_of(const StoredTensor& tensor) {
    return fmt::format("offset {}, shape [{}], stride [{}]", tensor.offset,
                       fmt::join(tensor.shape, ", "), fmt::join(tensor.stride, ", "));
  }

  const Pickle& pickle_;
  const TorchStorages& storages_;
  const std::filesystem::path& path_;
};

}  // namespace

std::span<const std::string_view> state_dict_names() {
  return kNames;
}

TorchStorages read_storages(const Pickle& pickle, const std::filesystem::path& path) {
  TorchStorages storages;
  for (const PickleValue& value : pickle.values) {
    if (value.kind != PickleKind::kPersistent) continue;
    const PickleValue& name = pickle.item(value, 0);
    const StorageClass* known = nullptr;
    if (is_storage_name(pickle, name)) {
      const auto* found =
          std::ranges::find(kStorageClasses, pickle.item(name, 1).text, &StorageClass::name);
      if (found != kStorageClasses.end()) known = found;
    }
    if (known == nullptr) {
      refuse_file(path, "a storage with an unknown description",
                  "its type, key, location and number of values");
    }
    const TorchStorage storage{.class_name = known->name,
                               .type = known->type,
                               .bytes_per_value = known->bytes,
                               .num_values = pickle.item(name, 4).number};
    const std::string_view key = pickle.item(name, 2).text;
    const auto [entry, is_new] = storages.emplace(key, storage);
    if (!is_new && entry->second != storage) {
      refuse_file(path, fmt::format("the storage '{}' is described in two ways", key),
                  "one type and one size");
    }
  }
  return storages;
}

std::vector<StoredTensor> read_state_dict(const Pickle& pickle, const TorchStorages& storages,
                                          const std::filesystem::path& path) {
  return StateDictReader(pickle, storages, path).read();
}

std::map<std::string, int64_t> read_dims(const Pickle& pickle) {
  const PickleValue& root = pickle.root();
  const PickleValue* dict =
      root.kind == PickleKind::kDict ? find_key(pickle, root, "dims") : nullptr;
  if (dict == nullptr || dict->kind != PickleKind::kDict) return {};
  std::map<std::string, int64_t> dims;
  for (size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const PickleValue& key = pickle.item(*dict, i);
    const PickleValue& value = pickle.item(*dict, i + 1);
    const bool is_short = key.kind == PickleKind::kText && key.text.size() <= kMaxKeyBytes;
    if (is_short && value.kind == PickleKind::kInt) dims.emplace(key.text, value.number);
  }
  return dims;
}

}  // namespace sotto
