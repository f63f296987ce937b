// Pickles, zip archives and files of torch.save made by hand, so that each byte of them can be
// wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sotto::test {

template <class Number>
std::string bytes_of_number(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

inline std::string joined(const std::vector<std::string>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::string());
}

// --- pickles

namespace pickled {

inline std::string text(const std::string& value) {
  return "X" + bytes_of_number(static_cast<uint32_t>(value.size())) + value;
}

inline std::string number(int64_t value) {
  return "\x8a\x08" + bytes_of_number(value);
}

inline std::string tuple(const std::vector<std::string>& items) {
  return "(" + joined(items) + "t";
}

inline std::string numbers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (const int64_t value : values) items.push_back(number(value));
  return tuple(items);
}

inline std::string list(const std::vector<std::string>& items) {
  return "](" + joined(items) + "e";
}

inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string inside;
  for (const auto& [key, value] : items) inside += text(key) + value;
  return "}(" + inside + "u";
}

inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

inline std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  return function + tuple(arguments) + "R";
}

inline std::string ordered_dict() {
  return call(global("collections", "OrderedDict"), {});
}

// What stands for a storage.
struct Storage {
  std::string class_name = "FloatStorage";
  std::string key = "0";
  int64_t num_values = 6;
  // The older form has one part more.
  bool is_old = false;
};

inline std::string storage(const Storage& storage) {
  std::vector<std::string> parts = {text("storage"), global("torch", storage.class_name),
                                    text(storage.key), text("cpu"), number(storage.num_values)};
  if (storage.is_old) parts.emplace_back("N");
  return tuple(parts) + "Q";
}

struct Tensor {
  Storage of = {};
  int64_t offset = 0;
  std::vector<int64_t> shape = {2, 3};
  std::vector<int64_t> stride = {3, 1};
};

inline std::string tensor(const Tensor& tensor) {
  return call(global("torch._utils", "_rebuild_tensor_v2"),
              {storage(tensor.of), number(tensor.offset), numbers(tensor.shape),
               numbers(tensor.stride), "\x89", ordered_dict()});
}

inline std::string whole(const std::string& body) {
  return "\x80\x02" + body + ".";
}

}  // namespace pickled

// --- zip archives

struct ZipFile {
  std::string name;
  std::string content;
  uint16_t method = 0;
};

struct ZipForm {
  // Sizes and offsets in the extra fields and a directory of 64 bits.
  bool is_64 = false;
  std::string comment = {};
};

inline std::string zip_entry(const ZipFile& file, size_t offset, const ZipForm& form) {
  const auto size = static_cast<uint32_t>(file.content.size());
  const uint32_t shown_size = form.is_64 ? 0xFFFFFFFF : size;
  std::string extra;
  if (form.is_64) {
    extra = bytes_of_number<uint16_t>(9) + bytes_of_number<uint16_t>(2) + "ab";
    extra += bytes_of_number<uint16_t>(1) + bytes_of_number<uint16_t>(24);
    extra += bytes_of_number<uint64_t>(size) + bytes_of_number<uint64_t>(size);
    extra += bytes_of_number<uint64_t>(offset);
  }
  return "PK\x01\x02" + std::string(6, '\0') + bytes_of_number(file.method) + std::string(8, '\0') +
         bytes_of_number(shown_size) + bytes_of_number(shown_size) +
         bytes_of_number(static_cast<uint16_t>(file.name.size())) +
         bytes_of_number(static_cast<uint16_t>(extra.size())) + std::string(10, '\0') +
         bytes_of_number(form.is_64 ? 0xFFFFFFFF : static_cast<uint32_t>(offset)) + file.name +
         extra;
}

// The end of an archive whose directory begins at `offset` and has `size` bytes.
inline std::string zip_end(size_t num_files, size_t offset, size_t size, const ZipForm& form) {
  std::string end;
  if (form.is_64) {
    end += "PK\x06\x06" + bytes_of_number<uint64_t>(44) + std::string(12, '\0');
    end += bytes_of_number<uint64_t>(num_files) + bytes_of_number<uint64_t>(num_files);
    end += bytes_of_number<uint64_t>(size) + bytes_of_number<uint64_t>(offset);
    end += "PK\x06\x07" + std::string(4, '\0') + bytes_of_number<uint64_t>(offset + size);
    end += bytes_of_number<uint32_t>(1);
  }
  const auto count = static_cast<uint16_t>(form.is_64 ? 0xFFFF : num_files);
  end += "PK\x05\x06" + std::string(4, '\0') + bytes_of_number(count) + bytes_of_number(count);
  end += bytes_of_number(static_cast<uint32_t>(size));
  end += bytes_of_number(form.is_64 ? 0xFFFFFFFF : static_cast<uint32_t>(offset));
  return end + bytes_of_number(static_cast<uint16_t>(form.comment.size())) + form.comment;
}

inline std::string zip_of(const std::vector<ZipFile>& files, const ZipForm& form = {}) {
  std::string archive;
  std::string directory;
  for (const ZipFile& file : files) {
    directory += zip_entry(file, archive.size(), form);
    // Sizes stand in the directory alone, as torch.save writes it.
    archive += "PK\x03\x04" + std::string(22, '\0') +
               bytes_of_number(static_cast<uint16_t>(file.name.size())) +
               bytes_of_number<uint16_t>(3) + file.name + "pad" + file.content;
  }
  return archive + directory + zip_end(files.size(), archive.size(), directory.size(), form);
}

// --- files of torch.save

struct StoredValues {
  std::string key;
  int64_t num_values = 0;
  std::string bytes;
};

// The form since PyTorch 1.6, of a whole pickle and the values of its storages.
inline std::string torch_zip(const std::string& pickle, const std::vector<StoredValues>& storages,
                             const ZipForm& form = {}) {
  std::vector<ZipFile> files = {{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}};
  for (const StoredValues& storage : storages)
    files.push_back({"archive/data/" + storage.key, storage.bytes});
  files.push_back({"archive/version", "3\n"});
  return zip_of(files, form);
}

inline std::string old_head(int64_t protocol = 1001, const std::string& little_endian = "\x88") {
  return pickled::whole("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19") +
         pickled::whole(pickled::number(protocol)) +
         pickled::whole(pickled::dict(
             {{"protocol_version", pickled::number(1001)}, {"little_endian", little_endian}}));
}

// The form before.
inline std::string torch_old(const std::string& pickle, const std::vector<StoredValues>& storages) {
  std::vector<std::string> keys;
  std::string values;
  for (const StoredValues& storage : storages) {
    keys.push_back(pickled::text(storage.key));
    values += bytes_of_number(storage.num_values) + storage.bytes;
  }
  return old_head() + pickle + pickled::whole(pickled::list(keys)) + values;
}

}  // namespace sotto::test
