#include "sotto/core/formats/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "sotto/core/config/options.h"
#include "sotto/core/error.h"
#include "sotto/core/files/byte_reader.h"

namespace sotto {

namespace {

constexpr const char* kFile = "an array written by numpy.save";
constexpr std::string_view kNumpyMagic = "\x93NUMPY";

constexpr std::array kNumpyTypes = {Named<TensorType>{"<f2", TensorType::kFloat16},
                                    Named<TensorType>{"<f4", TensorType::kFloat32},
                                    Named<TensorType>{"<f8", TensorType::kFloat64}};

// Returns an excerpt of the header for an error message: truncated if it is long, printable
// characters only.
std::string header_excerpt(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string result;
  for (const char c : text.substr(0, kLongest)) result += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kLongest ? result + "..." : result;
}

// Parses the header: a dictionary of three names in any order, in Python's notation.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::filesystem::path& path)
      : text_(text), path_(path) {}

  struct Header {
    std::optional<std::string_view> type;
    std::optional<bool> is_by_column;
    std::optional<std::vector<int64_t>> shape;
  };

  Header read() {
    Header header;
    expect('{');
    while (!skip('}')) {
      const std::string_view key = read_text();
      expect(':');
      if (key == "descr" && !header.type) {
        header.type = read_text();
      } else if (key == "fortran_order" && !header.is_by_column) {
        header.is_by_column = read_bool();
      } else if (key == "shape" && !header.shape) {
        header.shape = read_shape();
      } else {
        refuse(fmt::format("'{}' in its header", header_excerpt(key)));
      }
      if (!skip(',') && !is_next('}')) refuse_here("a comma or the end of the header");
    }
    if (!at_end()) refuse_here("the end of the header");
    if (!header.type || !header.is_by_column || !header.shape)
      refuse("a header with a missing key");
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    refuse_file(path_, found, "a header with descr, fortran_order and shape, each once");
  }
  [[noreturn]] void refuse_here(const char* expected) const {
    refuse_file(path_, fmt::format("'{}' in its header", header_excerpt(text_.substr(at_))),
                expected);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }
  bool is_next(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool skip(char c) {
    if (!is_next(c)) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!skip(c)) refuse_here(fmt::format("'{}'", c).c_str());
  }

  // Reads a string in either kind of quotes. The expected names contain neither quotes nor
  // backslashes.
  std::string_view read_text() {
    if (!is_next('\'') && !is_next('"'))
      refuse_here("a quoted string; arrays of records are not supported");
    const char quote = text_[at_++];
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) refuse_here("the other quote");
    const std::string_view text = text_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  bool read_bool() {
    skip_space();
    for (const std::string_view word : {"True", "False"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return word == "True";
    }
    refuse_here("True or False");
  }

  std::vector<int64_t> read_shape() {
    std::vector<int64_t> shape;
    expect('(');
    while (!skip(')')) {
      shape.push_back(read_size());
      if (!skip(',') && !is_next(')')) refuse_here("a comma or the end of the shape");
    }
    return shape;
  }

  int64_t read_size() {
    skip_space();
    uint64_t size = 0;
    const char* end = text_.data() + text_.size();
    const auto [last, error] = std::from_chars(text_.data() + at_, end, size);
    if (error != std::errc() || size > std::numeric_limits<int64_t>::max())
      refuse_here("a size below 2^63");
    at_ = static_cast<size_t>(last - text_.data());
    return static_cast<int64_t>(size);
  }

  std::string_view text_;
  const std::filesystem::path& path_;
  size_t at_ = 0;
};

// Returns the header's text, which follows the magic bytes.
std::string_view header_text(ByteReader& reader, const std::filesystem::path& path) {
  const auto major = reader.take_number<uint8_t>();
  const auto minor = reader.take_number<uint8_t>();
  if (major < 1 || major > 3 || minor != 0)
    refuse_file(path, fmt::format("version {}.{}", major, minor), "version 1.0, 2.0 or 3.0");
  const uint64_t length =
      major == 1 ? reader.take_number<uint16_t>() : reader.take_number<uint32_t>();
  return reader.take_text(length);
}

// Returns the magic bytes and the header; less if the file ends before the header's length, or if
// that length is implausibly large.
std::string front_of(const InputFile& file) {
  constexpr int64_t kLengthAt = 8, kPrefix = 12;
  constexpr int64_t kLongest = int64_t{1} << 20;
  const auto read = [&](int64_t count) {
    std::string bytes(static_cast<size_t>(std::min(file.size(), count)), '\0');
    file.read_all(0, bytes);
    return bytes;
  };
  std::string prefix = read(kPrefix);
  if (std::ssize(prefix) < kPrefix) return prefix;
  // Version 1.0 has two bytes for the length, the others have four.
  uint32_t length = 0;
  std::memcpy(&length, prefix.data() + kLengthAt, prefix[kNumpyMagic.size()] == 1 ? 2 : 4);
  return read(kPrefix + std::min(int64_t{length}, kLongest));
}

TensorType type_of(std::string_view name, const std::filesystem::path& path) {
  for (const auto& [known, type] : kNumpyTypes) {
    if (known == name) return type;
  }
  refuse_file(path, fmt::format("values of type '{}'", header_excerpt(name)), "<f2, <f4 or <f8",
              "Write it with numpy.save(path, array.astype('<f4')).");
}

}  // namespace

NpyFile NpyFile::open(const std::filesystem::path& path) {
  NpyFile file(InputFile::open(path, kFile));
  const std::string front = front_of(file.file_);
  ByteReader reader(std::as_bytes(std::span(front)), path, "it");
  if (front.size() < kNumpyMagic.size() || reader.take_text(kNumpyMagic.size()) != kNumpyMagic)
    refuse_file(path, "it does not start with the NumPy signature", kFile);
  const HeaderReader::Header header = HeaderReader(header_text(reader, path), path).read();
  file.type_ = type_of(*header.type, path);
  file.shape_ = *header.shape;
  file.values_at_ = static_cast<int64_t>(reader.at());
  if (*header.is_by_column) {
    refuse_file(path, "column-major order (fortran_order)", "row-major order",
                "Write it with numpy.save(path, numpy.ascontiguousarray(array)).");
  }
  if (file.shape_.size() != 2) {
    refuse_file(path, fmt::format("an array of {} dimensions", file.shape_.size()),
                "two: frames and features", /*hint=*/{});
  }
  const std::optional<int64_t> expected = num_bytes(file.type_, file.shape_);
  const int64_t present = file.file_.size() - file.values_at_;
  if (!expected || *expected != present) {
    refuse_file(path, fmt::format("{} bytes of values", present),
                fmt::format("{} x {} of {} bytes, as its header says", file.shape_[0],
                            file.shape_[1], size_of(file.type_)));
  }
  return file;
}

std::vector<std::byte> NpyFile::read(int64_t first_row, int64_t num_rows) const {
  SOTTO_ASSERT(first_row >= 0 && num_rows >= 0 && num_rows <= shape_[0] - first_row,
               "{} rows from {} on of {}", num_rows, first_row, shape_[0]);
  const int64_t row_bytes = shape_[1] * size_of(type_);
  std::vector<std::byte> values(static_cast<size_t>(num_rows * row_bytes));
  file_.read_all(values_at_ + first_row * row_bytes,
                 {reinterpret_cast<char*>(values.data()), values.size()});
  return values;
}

}  // namespace sotto
