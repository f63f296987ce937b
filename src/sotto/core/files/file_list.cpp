#include "sotto/core/files/file_list.h"

#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/input_file.h"
#include "sotto/core/files/json_object.h"
#include "sotto/core/files/mapped_file.h"
#include "sotto/core/files/output_file.h"
#include "sotto/core/files/text_file.h"

namespace sotto {

namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr const char* kListExpected = "a list of files with their checksums, as sotto writes it";
constexpr const char* kHint = "Use another checkpoint, or copy the folder again.";

[[noreturn]] void refuse(const fs::path& folder, std::string found, std::string expected) {
  throw DataError({.attempted = fmt::format("checking the files of {}", folder.string()),
                   .found = std::move(found),
                   .expected = std::move(expected),
                   .hint = kHint});
}

void check_file(const fs::path& folder, const std::string& name, const FileSum& expected,
                bool is_from_disk) {
  std::error_code ignored;
  if (!fs::exists(folder / name, ignored))
    refuse(folder, fmt::format("{} is missing", name),
           fmt::format("a file of {} bytes", expected.num_bytes));
  const InputFile file = InputFile::open(folder / name, "a file of a checkpoint");
  if (file.size() != expected.num_bytes)
    refuse(folder, fmt::format("{} is {} bytes long", name, file.size()),
           fmt::format("{}, as it was written", expected.num_bytes));
  if (is_from_disk) file.forget();
  if (const FileSum found = sum_of(file); found != expected)
    refuse(folder, fmt::format("{} is damaged: its checksum is {:016x}", name, found.checksum),
           fmt::format("{:016x}, as it was written", expected.checksum));
}

FileSum sum_from(const nlohmann::json& entry, const fs::path& path) {
  const auto text = entry.at("xxh64").get<std::string>();
  FileSum sum{.num_bytes = entry.at("bytes").get<int64_t>()};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, sum.checksum, 16);
  if (error != std::errc() || rest != end)
    refuse_file(path, fmt::format("the checksum '{}'", text), kListExpected, kHint);
  return sum;
}

}  // namespace

FileSum sum_of(const InputFile& file) {
  std::vector<char> piece(kReadBytes);
  Checksum checksum;
  int64_t offset = 0;
  while (const int64_t got = file.read(offset, piece)) {
    checksum.add(std::as_bytes(std::span(piece).first(static_cast<size_t>(got))));
    offset += got;
  }
  return checksum.sum();
}

FileList FileList::read(const fs::path& folder) {
  const fs::path path = folder / kFileListName;
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    refuse(folder, fmt::format("{} is missing", kFileListName), kListExpected);
  const nlohmann::json json = parse_json_object(
      read_text_file(path), {.path = path, .part = "it", .expected = kListExpected});
  FileList list;
  try {
    if (json.at("format_version").get<int64_t>() > kFileListFormatVersion)
      refuse_file(path, "a list of a newer format",
                  fmt::format("format_version {}", kFileListFormatVersion),
                  "Use the version of sotto that wrote it.");
    for (const auto& [name, entry] : json.at("files").items())
      list.add(name, sum_from(entry, path));
  } catch (const nlohmann::json::exception& error) {
    refuse_file(path, error.what(), kListExpected, kHint);
  }
  return list;
}

void FileList::add(const std::string& name, const FileSum& sum) {
  files_[name] = sum;
}

void FileList::add_rest(const fs::path& folder) {
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;  // open reports a better error
    if (at->is_regular_file(ignored) && name != kFileListName && !files_.contains(name))
      add(name, sum_of(InputFile::open(at->path(), "a file that was just written")));
  }
  if (failed) {
    errno = failed.value();
    throw_file_error("listing", folder);
  }
}

void FileList::write(const fs::path& folder) const {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [name, sum] : files_)
    files[name] = {{"bytes", sum.num_bytes}, {"xxh64", fmt::format("{:016x}", sum.checksum)}};
  const nlohmann::json json = {{"format_version", kFileListFormatVersion}, {"files", files}};
  const std::string text = json.dump(2) + "\n";
  write_file(folder / kFileListName, std::as_bytes(std::span(text)));
}

void check_files(const fs::path& folder, const FileCheck& check) {
  const FileList list = FileList::read(folder);
  for (const auto& [name, sum] : list.files()) {
    if (name != check.left_out) check_file(folder, name, sum, check.is_from_disk);
  }
}

}  // namespace sotto
