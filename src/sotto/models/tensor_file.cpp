#include "sotto/models/tensor_file.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/safetensors.h"
#include "sotto/kernels/split_float.h"

namespace sotto::models {

namespace {

constexpr size_t kMaxListed = 6;

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

// Values of [rows, columns] in each of `num_matrices`, turned to [columns, rows].
struct Turn {
  int64_t num_matrices;
  int64_t rows;
  int64_t columns;
};

std::vector<std::byte> turned(std::span<const std::byte> from, size_t value_bytes,
                              const Turn& turn) {
  std::vector<std::byte> to(from.size());
  std::byte* next = to.data();
  for (int64_t matrix = 0; matrix < turn.num_matrices; ++matrix) {
    for (int64_t column = 0; column < turn.columns; ++column) {
      for (int64_t row = 0; row < turn.rows; ++row) {
        const int64_t place = (matrix * turn.rows + row) * turn.columns + column;
        std::memcpy(next, from.data() + static_cast<size_t>(place) * value_bytes, value_bytes);
        next += value_bytes;
      }
    }
  }
  return to;
}

Turn to_file(const NamedTensor& named) {
  const int64_t rows = named.tensor.size(0);
  return {rows, named.taps, named.tensor.numel() / rows / named.taps};
}

Turn from_file(const NamedTensor& named) {
  const Turn turn = to_file(named);
  return {turn.num_matrices, turn.columns, turn.rows};
}

// Tensors as entries of a file. Bytes are brought to the host, and into the file's order, one
// tensor after the other: the host need not have room for all that a GPU has.
class Entries {
 public:
  explicit Entries(const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) {
      all_.push_back(entry_of(tensor));
      by_address_[all_.back().bytes.data()] = &tensor;
    }
  }

  std::span<const SafetensorsEntry> all() const { return all_; }

  // Lasts as long as this object.
  FetchBytes fetch() const {
    return [this, buffer = std::vector<std::byte>()](
               std::span<const std::byte> bytes) mutable -> std::span<const std::byte> {
      if (bytes.empty()) return bytes;
      const NamedTensor& named = *by_address_.at(bytes.data());
      if (!named.tensor.is_cpu()) {
        const at::Tensor host = named.tensor.cpu();
        buffer.assign(bytes_of(host).begin(), bytes_of(host).end());
        bytes = buffer;
      }
      if (named.taps > 0) {
        buffer = turned(bytes, named.tensor.element_size(), to_file(named));
        bytes = buffer;
      }
      return bytes;
    };
  }

 private:
  std::vector<SafetensorsEntry> all_;
  std::map<const std::byte*, const NamedTensor*> by_address_;
};

// The file's values in the order of the tensor's.
std::vector<std::byte> bytes_for(const NamedTensor& named, const TensorView& view) {
  if (named.taps > 0)
    return turned(view.bytes, static_cast<size_t>(size_of(view.type)), from_file(named));
  return {view.bytes.begin(), view.bytes.end()};
}

// From host memory, by way of bytes: those of a file need not be aligned.
void put_bytes(const at::Tensor& tensor, std::span<const std::byte> bytes) {
  SOTTO_ASSERT(bytes.size() == tensor.nbytes(), "{} bytes for a tensor of {}", bytes.size(),
               tensor.nbytes());
  if (tensor.is_cpu()) {
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    return;
  }
  auto* data = const_cast<std::byte*>(bytes.data());
  tensor.view(-1).view(at::kByte).copy_(at::from_blob(data, {std::ssize(bytes)}, at::kByte));
}

using Find = std::function<const TensorView*(const std::string&)>;

// The tensor of a file under any of its names.
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

std::string shape_difference(const NamedTensor& ours, const TensorView& theirs) {
  if (theirs.shape == file_shape(ours)) return {};
  return fmt::format("{} is {} there and {} here", ours.name, shape_text(theirs.shape),
                     shape_text(file_shape(ours)));
}

[[noreturn]] void refuse(const std::string& what, std::vector<std::string> found) {
  const size_t num_found = found.size();
  if (num_found > kMaxListed) {
    found.resize(kMaxListed);
    found.push_back(fmt::format("and {} more", num_found - kMaxListed));
  }
  throw DataError({.attempted = fmt::format("loading {}", what),
                   .found = fmt::format("a network of another shape: {}", fmt::join(found, "; ")),
                   .expected = "the shapes of this run's configuration",
                   .hint = "Use the configuration beside it, or another --out."});
}

bool begins_with_any(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const std::string& p) { return name.starts_with(p); });
}

// One value of a file as fp32; nothing for a type that holds no such numbers.
template <class T>
float float_at(std::span<const std::byte> bytes, size_t place) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data() + place * sizeof(T), sizeof(T));
  return static_cast<float>(value);
}

using ReadFloat = float (*)(std::span<const std::byte>, size_t);

ReadFloat reader_for(TensorType type) {
  switch (type) {
    case TensorType::kFloat32: return float_at<float>;
    case TensorType::kFloat16: return float_at<c10::Half>;
    case TensorType::kBFloat16: return float_at<c10::BFloat16>;
    case TensorType::kFloat64: return float_at<double>;
    default: return nullptr;
  }
}

// fp32 values as bf16 and what that leaves out, by a function that makes two of one.
template <class Low, class Split>
void put_split(const NamedTensor& named, std::span<const std::byte> values, ReadFloat read,
               Split split_of) {
  const auto count = static_cast<size_t>(named.tensor.numel());
  std::vector<uint16_t> high(count);
  std::vector<Low> low(count);
  for (size_t i = 0; i < count; ++i) {
    const auto split = split_of(read(values, i));
    high[i] = split.high;
    low[i] = split.low;
  }
  put_bytes(named.tensor, std::as_bytes(std::span(high)));
  put_bytes(named.remainder, std::as_bytes(std::span(low)));
}

void put_with_remainder(const NamedTensor& named, std::span<const std::byte> values,
                        ReadFloat read) {
  if (named.remainder.scalar_type() == at::kByte) {
    put_split<uint8_t>(named, values, read,
                       [](float value) { return kernels::split_short(value, kernels::kNoNoise8); });
  } else {
    put_split<int16_t>(named, values, read, kernels::split_float);
  }
}

template <class T>
std::vector<std::byte> converted_to(std::span<const std::byte> from, ReadFloat read, size_t count) {
  std::vector<std::byte> to(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<T>(read(from, i));
    std::memcpy(to.data() + i * sizeof(T), &value, sizeof(T));
  }
  return to;
}

std::vector<std::byte> converted(std::span<const std::byte> from, TensorType type,
                                 const at::Tensor& like) {
  const auto count = static_cast<size_t>(like.numel());
  const ReadFloat read = reader_for(type);
  switch (like.scalar_type()) {
    case at::kBFloat16: return converted_to<c10::BFloat16>(from, read, count);
    case at::kHalf: return converted_to<c10::Half>(from, read, count);
    default: return converted_to<float>(from, read, count);
  }
}

}  // namespace

void write_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  const Entries entries(tensors);
  write_safetensors(path, entries.all(), {{"format", "pt"}}, entries.fetch());
}

void write_tensor_folder(const std::filesystem::path& folder,
                         const std::vector<NamedTensor>& tensors, int64_t max_shard_bytes) {
  const Entries entries(tensors);
  write_weight_folder(folder, entries.all(),
                      {.max_shard_bytes = max_shard_bytes, .fetch = entries.fetch()});
}

void load_tensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<std::string> found;
  std::vector<std::string> names = file.names();
  for (const NamedTensor& ours : tensors) {
    std::erase(names, ours.name);
    const TensorView* theirs = file.find(ours.name);
    if (theirs == nullptr) {
      found.push_back(fmt::format("{} {} is not in it", ours.name, shape_text(file_shape(ours))));
    } else if (std::string difference = shape_difference(ours, *theirs); !difference.empty()) {
      found.push_back(std::move(difference));
    } else if (theirs->type != type_of(ours).in_file) {
      found.push_back(fmt::format("{} is not {}", ours.name, type_of(ours).name));
    }
  }
  for (const std::string& name : names) found.push_back(fmt::format("{} is only in it", name));
  if (!found.empty()) refuse(path.string(), std::move(found));
  for (const NamedTensor& ours : tensors) {
    const TensorView& theirs = *file.find(ours.name);
    if (ours.taps > 0) {
      put_bytes(ours.tensor, bytes_for(ours, theirs));
    } else {
      put_bytes(ours.tensor, theirs.bytes);
    }
  }
}

Imported import_tensors(const WeightFolder& folder, const std::vector<NamedTensor>& tensors,
                        const ImportRules& rules) {
  const std::string& prefix = rules.optional_prefix;
  const std::vector<std::string> names = folder.names();
  const bool has_prefix =
      std::ranges::any_of(names, [&](const std::string& name) { return name.starts_with(prefix); });
  std::set<std::string> used;
  const Find find = [&](const std::string& name) -> const TensorView* {
    if (has_prefix || !name.starts_with(prefix)) return folder.find(name);
    return folder.find(std::string_view(name).substr(prefix.size()));
  };
  Imported imported;
  std::vector<std::string> found;
  std::vector<std::pair<const NamedTensor*, const TensorView*>> pairs;
  for (const NamedTensor& ours : tensors) {
    const TensorView* theirs = find_any(ours, find, used);
    if (theirs == nullptr) {
      if (begins_with_any(ours.name, rules.may_lack)) {
        imported.lacked.push_back(ours.name);
      } else {
        found.push_back(fmt::format("{} {} is not in it", ours.name, shape_text(file_shape(ours))));
      }
    } else if (begins_with_any(ours.name, rules.may_lack) && theirs->shape != file_shape(ours)) {
      imported.lacked.push_back(ours.name);
    } else if (std::string difference = shape_difference(ours, *theirs); !difference.empty()) {
      found.push_back(std::move(difference));
    } else if (reader_for(theirs->type) == nullptr) {
      found.push_back(fmt::format("{} is of no type that weights have", ours.name));
    } else {
      pairs.emplace_back(&ours, theirs);
    }
  }
  for (const std::string& name : names) {
    const std::string whole = has_prefix ? name : prefix + name;
    if (used.contains(name) || used.contains(whole)) continue;
    if (begins_with_any(name, rules.may_leave)) {
      imported.left.push_back(name);
    } else {
      found.push_back(fmt::format("{} is only in it", name));
    }
  }
  if (!found.empty()) refuse(folder.files().front().parent_path().string(), std::move(found));
  for (const auto& [ours, theirs] : pairs) {
    const std::vector<std::byte> values = bytes_for(*ours, *theirs);
    if (ours->remainder.defined()) {
      put_with_remainder(*ours, values, reader_for(theirs->type));
    } else {
      put_bytes(ours->tensor, converted(values, theirs->type, ours->tensor));
    }
  }
  return imported;
}

}  // namespace sotto::models
