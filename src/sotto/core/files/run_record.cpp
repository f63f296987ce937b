#include "sotto/core/files/run_record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/folder_lock.h"
#include "sotto/core/files/output_file.h"

namespace sotto {

namespace {

constexpr const char* kRecordKind = "run_record";

std::string describe_attempt(const char* doing, const std::filesystem::path& path) {
  return fmt::format("{} {}", doing, path.string());
}

std::string header_line() {
  const nlohmann::json header = {{"format_version", kRunRecordFormatVersion},
                                 {"kind", kRecordKind}};
  return header.dump() + "\n";
}

void check_header(const std::string& line, const std::filesystem::path& path) {
  const nlohmann::json header = nlohmann::json::parse(line, nullptr, false);
  const bool ours = header.is_object() && header.value("kind", nlohmann::json()) == kRecordKind &&
                    header.value("format_version", nlohmann::json()).is_number_integer();
  if (!ours) {
    throw DataError({.attempted = describe_attempt("reading", path),
                     .found = "line 1 is not the header of a run record",
                     .expected = "a record that sotto wrote, such as metrics.jsonl"});
  }
  const auto version = header["format_version"].get<int64_t>();
  if (version > kRunRecordFormatVersion) {
    throw DataError({.attempted = describe_attempt("reading", path),
                     .found = fmt::format("its format_version is {}", version),
                     .expected = fmt::format("{} or less", kRunRecordFormatVersion),
                     .hint = "A newer sotto wrote this."});
  }
}

nlohmann::json parse_record(const std::string& line, int64_t number,
                            const std::filesystem::path& path) {
  nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object()) {
    throw DataError({.attempted = describe_attempt("reading", path),
                     .found = fmt::format("line {} is broken", number),
                     .expected = "a JSON object"});
  }
  return record;
}

// Returns whether a file without a complete line is a record whose header was truncated by a crash:
// part of the header, or the zeros that some file systems leave after a power failure.
bool is_cut_header(std::string_view text) {
  return header_line().starts_with(text) || text.find_first_not_of('\0') == std::string_view::npos;
}

void name_numbers_not_finite(nlohmann::json& value) {
  if (value.is_structured()) {
    for (nlohmann::json& item : value) name_numbers_not_finite(item);
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    value = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  }
}

// The bytes after the last line end of a file, and the number of bytes before them.
struct Tail {
  int64_t start = 0;
  std::string text;
};

Tail read_tail(int descriptor, const std::filesystem::path& path) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) throw_file_error("opening", path);
  Tail tail = {.start = status.st_size, .text = {}};
  std::vector<std::string> pieces;  // in reverse order
  std::array<char, 4096> block{};
  while (tail.start > 0) {
    const int64_t length = std::min<int64_t>(tail.start, block.size());
    const ssize_t got =
        pread(descriptor, block.data(), static_cast<size_t>(length), tail.start - length);
    if (got < length) {
      if (got >= 0) errno = EIO;
      throw_file_error("reading", path);
    }
    const std::string_view text(block.data(), static_cast<size_t>(length));
    const size_t end = text.rfind('\n');
    const size_t rest = end == std::string_view::npos ? 0 : end + 1;
    pieces.emplace_back(text.substr(rest));
    tail.start -= length - static_cast<int64_t>(rest);
    if (rest > 0) break;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) tail.text += *piece;
  return tail;
}

}  // namespace

RunRecord::RunRecord(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

RunRecord::~RunRecord() {
  close();
}

RunRecord::RunRecord(RunRecord&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      has_rest_(other.has_rest_) {}

RunRecord& RunRecord::operator=(RunRecord&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  size_ = other.size_;
  has_rest_ = other.has_rest_;
  return *this;
}

void RunRecord::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

RunRecord RunRecord::open(const std::filesystem::path& path) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC;
  const int descriptor = ::open(path.c_str(), kFlags, 0644);
  if (descriptor < 0) throw_file_error("opening", path);
  RunRecord record(path, descriptor);
  struct stat status{};
  if (fstat(descriptor, &status) != 0) throw_file_error("opening", path);
  if (!S_ISREG(status.st_mode)) {
    throw DataError(
        {.attempted = describe_attempt("opening", path), .found = "it is not a regular file"});
  }
  if (!lock_soon(descriptor)) {
    throw DataError({.attempted = describe_attempt("opening", path),
                     .found = "another process is writing it",
                     .hint = "Wait until that run ends, or name another folder with --out."});
  }
  record.continue_file();
  return record;
}

void RunRecord::continue_file() {
  const Tail tail = read_tail(descriptor_, path_);
  size_ = tail.start;
  if (size_ == 0) {
    if (!is_cut_header(tail.text)) check_header(tail.text, path_);
  } else {
    std::ifstream file(path_, std::ios::binary);
    std::string line;
    std::getline(file, line);
    check_header(line, path_);
  }
  if (!tail.text.empty()) cut();
  if (size_ == 0) write_line(header_line());
}

int64_t RunRecord::cut_back(const std::function<bool(const nlohmann::json&)>& kept) {
  std::ifstream file(path_, std::ios::binary);
  int64_t end = 0;
  // Lines that cannot be read are never cut off.
  for (bool is_header = true; end < size_; is_header = false) {
    errno = 0;
    std::string line;
    if (!std::getline(file, line)) {
      if (errno == 0) errno = EIO;
      throw_file_error("reading", path_);
    }
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!is_header && record.is_object() && !kept(record)) break;
    end += std::ssize(line) + 1;
  }
  if (end >= size_) return 0;
  const int64_t before = std::exchange(size_, end);
  try {
    cut();
    sync();
  } catch (const DataError&) {
    size_ = before;
    throw;
  }
  return before - end;
}

void RunRecord::append(const nlohmann::json& record) {
  SOTTO_ASSERT(record.is_object(), "a record is an object, not {}", record.type_name());
  nlohmann::json named = record;
  name_numbers_not_finite(named);
  // Text with broken UTF-8 (a file name, a transcript) must not prevent writing the record.
  write_line(named.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void RunRecord::write_line(std::string_view line) {
  SOTTO_ASSERT(descriptor_ >= 0, "the record was moved away");
  if (has_rest_) cut();
  ssize_t written = 0;
  do {
    written = ::write(descriptor_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) {
    size_ += written;
    return;
  }
  if (written < 0) throw_file_error("writing", path_);
  has_rest_ = true;
  cut();
  throw DataError(
      {.attempted = describe_attempt("writing", path_),
       .found = fmt::format("only {} of {} bytes of a line could be written, and were removed",
                            written, line.size()),
       .hint = "The disk is full, or the file has reached a size limit."});
}

void RunRecord::cut() {
  if (ftruncate(descriptor_, size_) != 0) {
    throw_file_error("removing an unfinished line from", path_);
  }
  has_rest_ = false;
}

void RunRecord::sync() {
  SOTTO_ASSERT(descriptor_ >= 0, "the record was moved away");
  if (fsync(descriptor_) != 0) throw_file_error("syncing", path_);
}

RunRecordContent read_run_record(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_file_error("reading", path);
  RunRecordContent content;
  std::string line;
  int64_t number = 0;
  while (std::getline(file, line)) {
    ++number;
    // getline() also stops at the end of the file: a line without a line end is truncated.
    if (file.eof()) {
      if (number == 1 && !is_cut_header(line)) check_header(line, path);
      content.has_cut_tail = true;
    } else if (number == 1) {
      check_header(line, path);
    } else {
      content.records.push_back(parse_record(line, number, path));
    }
  }
  // A folder can be opened, but not read.
  if (file.bad()) throw_file_error("reading", path);
  if (number == 0) content.has_cut_tail = true;
  return content;
}

double record_number(const nlohmann::json& value) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return kInfinity;
  if (value == "-inf") return -kInfinity;
  throw DataError({.attempted = "reading a number of a run record",
                   .found = fmt::format("it is {}", value.dump()),
                   .expected = R"(a number, "nan", "inf" or "-inf")"});
}

}  // namespace sotto
