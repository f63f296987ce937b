#include "sotto/models/files/tensor_file.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/formats/safetensors.h"
#include "sotto/models/files/tensor_values.h"

namespace sotto::models {

namespace {

constexpr size_t kMaxListed = 6;
// The value of every counter that is written.
constexpr int64_t kCounter = 0;

struct KnownType {
  at::ScalarType in_memory;
  TensorType in_file;
  std::string_view name;
};

constexpr std::array kKnownTypes = {KnownType{at::kFloat, TensorType::kFloat32, "fp32"},
                                    KnownType{at::kBFloat16, TensorType::kBFloat16, "bf16"},
                                    KnownType{at::kHalf, TensorType::kFloat16, "fp16"},
                                    KnownType{at::kShort, TensorType::kInt16, "int16"},
                                    KnownType{at::kByte, TensorType::kUint8, "uint8"}};

const KnownType& type_of(const NamedTensor& named) {
  const auto* found =
      std::ranges::find(kKnownTypes, named.tensor.scalar_type(), &KnownType::in_memory);
  SOTTO_ASSERT(found != kKnownTypes.end(), "'{}' of type {} in a file of weights", named.name,
               c10::toString(named.tensor.scalar_type()));
  return *found;
}

std::vector<int64_t> file_shape(const NamedTensor& named) {
  return named.shape.empty() ? named.tensor.sizes().vec() : named.shape;
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

SafetensorsEntry entry_of(const NamedTensor& named) {
  SOTTO_ASSERT(named.tensor.is_contiguous(), "'{}' cannot be written as it lies", named.name);
  return {.name = named.name,
          .type = type_of(named).in_file,
          .shape = file_shape(named),
          .bytes = bytes_of(named.tensor)};
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// Tensors as entries of a file. Bytes are copied to the host, and into file order, one tensor at a
// time: the host need not hold everything that a GPU holds.
class Entries {
 public:
  explicit Entries(const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) {
      all_.push_back(entry_of(tensor));
      by_address_[all_.back().bytes.data()] = &tensor;
      if (tensor.counter.empty()) continue;
      all_.push_back({.name = tensor.counter,
                      .type = TensorType::kInt64,
                      .shape = {},
                      .bytes = std::as_bytes(std::span(&kCounter, 1))});
    }
  }

  std::span<const SafetensorsEntry> all() const { return all_; }

  // Valid as long as this object.
  FetchBytes fetch() const {
    return [this, host = at::Tensor(), buffer = std::vector<std::byte>()](
               std::span<const std::byte> bytes) mutable -> std::span<const std::byte> {
      const auto found = by_address_.find(bytes.data());
      if (bytes.empty() || found == by_address_.end()) return bytes;
      const NamedTensor& named = *found->second;
      if (!named.tensor.is_cpu()) {
        host = named.tensor.cpu();
        bytes = bytes_of(host);
      }
      return in_file_order(named, bytes, buffer);
    };
  }

 private:
  std::vector<SafetensorsEntry> all_;
  std::map<const std::byte*, const NamedTensor*> by_address_;
};

using Find = std::function<const TensorView*(const std::string&)>;

// Finds the tensor of a file under any of its names.
const TensorView* find_any(const NamedTensor& named, const Find& find,
                           std::set<std::string>& used) {
  for (const std::string& alias : named.aliases) {
    if (const TensorView* found = find(alias)) {
      used.insert(alias);
      return found;
    }
  }
  used.insert(named.name);
  return find(named.name);
}

// The tensors of a folder, whose names may lack a prefix that ours have.
class PrefixedNames {
 public:
  PrefixedNames(const WeightFolder& folder, const std::string& prefix)
      : folder_(folder), prefix_(prefix) {
    const std::vector<std::string> names = folder.names();
    has_prefix_ = std::ranges::any_of(
        names, [&](const std::string& name) { return name.starts_with(prefix); });
  }

  Find find() const {
    return [this](const std::string& name) -> const TensorView* {
      if (has_prefix_ || !name.starts_with(prefix_)) return folder_.find(name);
      return folder_.find(std::string_view(name).substr(prefix_.size()));
    };
  }
  // Returns one of the folder's names in our form.
  std::string whole(const std::string& name) const { return has_prefix_ ? name : prefix_ + name; }

 private:
  const WeightFolder& folder_;
  const std::string& prefix_;
  bool has_prefix_;
};

// Formatted as "tensors are new: a, b, c ...".
std::string listed(const char* what, const std::vector<std::string>& names) {
  const size_t count = std::min(kMaxListed, names.size());
  return fmt::format(
      "{}: {}{}", what,
      fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "),
      count < names.size() ? " ..." : "");
}

bool begins_with_any(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const std::string& p) { return name.starts_with(p); });
}

}  // namespace

std::string difference_of(const NamedTensor& ours, const TensorView* theirs) {
  if (theirs == nullptr)
    return fmt::format("{} {} is not in it", ours.name, shape_text(file_shape(ours)));
  if (theirs->shape == file_shape(ours)) return {};
  return fmt::format("{} is {} there and {} here", ours.name, shape_text(theirs->shape),
                     shape_text(file_shape(ours)));
}

void refuse_differences(const std::string& what, std::vector<std::string> found) {
  const size_t num_found = found.size();
  if (num_found > kMaxListed) {
    found.resize(kMaxListed);
    found.push_back(fmt::format("and {} more", num_found - kMaxListed));
  }
  throw DataError(
      {.attempted = fmt::format("loading {}", what),
       .found = fmt::format("a network of a different shape: {}", fmt::join(found, "; ")),
       .expected = "the shapes of this run's configuration",
       .hint = "Use the configuration stored with it, or another --out."});
}

FileSum write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  const Entries entries(tensors);
  return write_safetensors(path, entries.all(), {{"format", "pt"}}, entries.fetch());
}

void write_tensor_folder(const std::filesystem::path& folder,
                         const std::vector<NamedTensor>& tensors, int64_t max_shard_bytes) {
  const Entries entries(tensors);
  write_weight_folder(folder, entries.all(),
                      {.max_shard_bytes = max_shard_bytes, .fetch = entries.fetch()});
}

void with_entries(const std::vector<NamedTensor>& tensors, const WriteEntries& write) {
  const Entries entries(tensors);
  write(entries.all(), entries.fetch());
}

void load_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<std::string> found;
  std::vector<std::string> names = file.names();
  for (const NamedTensor& ours : tensors) {
    std::erase(names, ours.name);
    std::erase(names, ours.counter);
    const TensorView* theirs = file.find(ours.name);
    if (std::string difference = difference_of(ours, theirs); !difference.empty()) {
      found.push_back(std::move(difference));
    } else if (theirs->type != type_of(ours).in_file) {
      found.push_back(fmt::format("{} is not {}", ours.name, type_of(ours).name));
    }
  }
  for (const std::string& name : names) found.push_back(fmt::format("{} is only in it", name));
  if (!found.empty()) refuse_differences(path.string(), std::move(found));
  std::vector<std::byte> buffer;
  for (const NamedTensor& ours : tensors)
    put_bytes(ours.tensor, in_memory_order(ours, *file.find(ours.name), buffer));
}

Imported import_tensors(const WeightFolder& folder, const std::vector<NamedTensor>& tensors,
                        const ImportRules& rules, const ReadValues& read) {
  const PrefixedNames prefixed(folder, rules.optional_prefix);
  const Find find = prefixed.find();
  std::set<std::string> used;
  Imported imported;
  std::vector<std::string> found;
  std::vector<std::pair<const NamedTensor*, const TensorView*>> pairs;
  for (const NamedTensor& ours : tensors) {
    const TensorView* theirs = find_any(ours, find, used);
    used.insert(ours.counter);
    const bool may_lack = begins_with_any(ours.name, rules.may_lack);
    std::string difference = difference_of(ours, theirs);
    if (theirs == nullptr && may_lack) {
      imported.lacked.push_back(ours.name);
    } else if (!difference.empty()) {
      (may_lack ? imported.differing : found).push_back(std::move(difference));
    } else if (!holds_floats(theirs->type)) {
      found.push_back(fmt::format("{} has a type that weights cannot have", ours.name));
    } else {
      pairs.emplace_back(&ours, theirs);
    }
  }
  for (const std::string& name : folder.names()) {
    if (used.contains(name) || used.contains(prefixed.whole(name))) continue;
    if (begins_with_any(name, rules.ignored)) continue;
    if (begins_with_any(name, rules.may_leave)) {
      imported.left.push_back(name);
    } else {
      found.push_back(fmt::format("{} is only in it", name));
    }
  }
  if (!found.empty()) refuse_differences(folder.path().string(), std::move(found));
  for (const auto& [ours, theirs] : pairs) put_values(*ours, read(*ours, *theirs));
  imported.num_taken = std::ssize(pairs);
  return imported;
}

std::vector<NamedTensor> in_types_of(const WeightFolder& folder, std::vector<NamedTensor> tensors,
                                     const std::string& optional_prefix) {
  const PrefixedNames prefixed(folder, optional_prefix);
  std::set<std::string> used;
  for (NamedTensor& named : tensors) {
    const TensorView* stored = find_any(named, prefixed.find(), used);
    if (stored == nullptr || named.tensor.scalar_type() != at::kFloat) continue;
    if (stored->type == TensorType::kBFloat16) named.tensor = named.tensor.to(at::kBFloat16);
    if (stored->type == TensorType::kFloat16) named.tensor = named.tensor.to(at::kHalf);
  }
  return tensors;
}

std::vector<std::string> notes_of(const Imported& imported) {
  std::vector<std::string> notes;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) notes.push_back(fmt::format("{} {}", names.size(), listed(what, names)));
  };
  add("tensors are new", imported.lacked);
  add("tensors are new, because their shapes differ", imported.differing);
  add("tensors were skipped", imported.left);
  return notes;
}

}  // namespace sotto::models
