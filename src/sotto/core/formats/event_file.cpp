#include "sotto/core/formats/event_file.h"

#include <chrono>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/files/crc32c.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Readers process the files of a folder in the order of their names.
fs::path free_name(const fs::path& folder) {
  const auto seconds = static_cast<int64_t>(seconds_since_1970());
  for (int number = 0;; ++number) {
    const fs::path path = folder / fmt::format("events.out.tfevents.{:010}.{:03}", seconds, number);
    if (!fs::exists(path)) return path;
  }
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Little-endian, like all supported machines.
template <class Number>
void append_number(std::string& record, Number number) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  record.append(bytes, sizeof(Number));
}

std::string frame(std::string_view message) {
  std::string record;
  record.reserve(message.size() + 16);
  append_number(record, static_cast<uint64_t>(message.size()));
  append_number(record, masked_crc32c(bytes_of(record)));
  record += message;
  append_number(record, masked_crc32c(bytes_of(message)));
  return record;
}

}  // namespace

EventFile::EventFile(fs::path path) : path_(std::move(path)), file_(OutputFile::append(path_)) {}

EventFile EventFile::begin(const fs::path& folder, int64_t first_step) {
  const std::string version = file_version_message(seconds_since_1970());
  EventFile file(free_name(folder));
  file.append_record(version);
  file.append_record(session_start_message(seconds_since_1970(), first_step));
  return file;
}

void EventFile::add(int64_t step, std::span<const Scalar> scalars) {
  append_record(scalars_message(seconds_since_1970(), step, scalars));
}

void EventFile::append_record(std::string_view message) {
  const std::string record = frame(message);
  try {
    file_.write(bytes_of(record));
  } catch (const DataError&) {
    // Readers would not find any records after a partial one.
    std::error_code ignored;
    fs::resize_file(path_, static_cast<uintmax_t>(size_), ignored);
    throw;
  }
  size_ += std::ssize(record);
}

}  // namespace sotto
