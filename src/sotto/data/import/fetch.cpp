#include "sotto/data/import/fetch.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <system_error>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/data/import/run_program.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

// Exit codes of curl, as listed in its manual.
constexpr int kNoHost = 6;
constexpr int kNoConnection = 7;
constexpr int kHttpError = 22;
constexpr int kCannotWrite = 23;
constexpr int kTimeout = 28;
constexpr int kNoRange = 33;
// Prefix of curl's last output line, which has the server's status.
constexpr const char* kStatus = "answer ";

[[noreturn]] void refuse(const FetchRequest& request, std::string found, std::string expected,
                         std::string hint) {
  throw DataError({.attempted = fmt::format("fetching {}", request.url),
                   .found = std::move(found),
                   .expected = std::move(expected),
                   .hint = std::move(hint)});
}

std::string name_in(const std::string& url) {
  const std::string path = url.substr(0, url.find_first_of("?#"));
  const size_t host = path.find("://");
  const size_t slash = path.rfind('/');
  const bool has_name = host != std::string::npos && slash != std::string::npos &&
                        slash > host + 2 && slash + 1 < path.size();
  const std::string name = has_name ? path.substr(slash + 1) : "";
  if (!name.empty() && name != "." && name != "..") return name;
  throw ConfigError({.attempted = "fetching a file",
                     .found = fmt::format("'{}'", url),
                     .expected = "the address of a file, such as https://HOST/NAME.tar.gz"});
}

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

// Returns the text after the number in "curl: (22) The requested URL returned error: 404".
std::string last_words(const std::string& output) {
  std::string line;
  std::istringstream lines(output);
  for (std::string next; std::getline(lines, next);) {
    if (!next.empty() && !next.starts_with(kStatus)) line = next;
  }
  const size_t number = line.find(") ");
  if (line.starts_with("curl: (") && number != std::string::npos) line.erase(0, number + 2);
  return line;
}

[[noreturn]] void refuse_loading(const FetchRequest& request, const ProgramResult& result) {
  const std::string said = last_words(result.output);
  switch (result.exit_code) {
    case kNoHost:
    case kNoConnection:
    case kTimeout:
      refuse(request, fmt::format("no connection: {}", said),
             "a network, and a server that answers",
             "Fetch it on a machine with a network and copy it here.");
    case kHttpError:
      refuse(request, fmt::format("the server refused: {}", said), "a file at that address",
             "`sotto data fetch --list` names the pages of public corpora.");
    case kCannotWrite:
      refuse(request, fmt::format("{} cannot be written: {}", request.folder.string(), said),
             "a writable folder with free space",
             "Free some space and run the command again to continue, or name another folder with "
             "--out.");
    default:
      refuse(request, fmt::format("curl ended with {}: {}", result.exit_code, said),
             "the complete file", "Run the command again: it continues where it stopped.");
  }
}

ProgramResult run_curl(const FetchRequest& request, const fs::path& part,
                       const std::function<void(int64_t)>& progress) {
  const ProgramResult result = run_program({"curl",
                                            "--fail",
                                            "--location",
                                            "--silent",
                                            "--show-error",
                                            "--proto",
                                            "=http,https,file",
                                            "--connect-timeout",
                                            "30",
                                            "--speed-limit",
                                            "1",
                                            "--speed-time",
                                            "60",
                                            "--write-out",
                                            std::string(kStatus) + "%{http_code}\n",
                                            "--continue-at",
                                            "-",
                                            "--output",
                                            part.string(),
                                            "--url",
                                            request.url},
                                           [&] {
                                             if (progress) progress(size_of(part));
                                           });
  if (result.has_started) return result;
  throw ConfigError({.attempted = fmt::format("fetching {}", request.url),
                     .found = "curl is not installed",
                     .expected = "curl, which downloads files",
                     .hint = "apt-get install curl"});
}

// Returns whether the partial file cannot be continued: the server does not support ranges, or has
// no more bytes. In the latter case curl reports success, whatever the partial file contains.
bool is_stuck(const ProgramResult& result, int64_t bytes_before) {
  const bool is_past_end = result.output.find(std::string(kStatus) + "416") != std::string::npos;
  return bytes_before > 0 && (result.exit_code == kNoRange || is_past_end);
}

void check_sum(const FetchRequest& request, const fs::path& file) {
  if (request.sha256.empty()) return;
  const ProgramResult result = run_program({"sha256sum", "--binary", file.string()});
  if (!result.has_started || result.exit_code != 0)
    refuse(request, fmt::format("sha256sum failed: {}", last_words(result.output)),
           "the program sha256sum", "apt-get install coreutils");
  // sha256sum writes a backslash before the sum of a name with special characters.
  const size_t begin = result.output.starts_with('\\') ? 1 : 0;
  const std::string found = result.output.substr(begin, 64);
  std::string wanted = request.sha256;
  std::ranges::transform(wanted, wanted.begin(), [](unsigned char c) { return std::tolower(c); });
  if (found == wanted) return;
  std::error_code ignored;
  fs::remove(file, ignored);
  refuse(request, fmt::format("the checksum {}", found), fmt::format("the checksum {}", wanted),
         "The file was removed. Fetch it again, or check the checksum at its source.");
}

void run_unpacker(const fs::path& file, const std::vector<std::string>& words) {
  const ProgramResult result = run_program(words);
  if (!result.has_started) {
    throw ConfigError({.attempted = fmt::format("unpacking {}", file.string()),
                       .found = fmt::format("{} is not installed", words.front()),
                       .expected = "it",
                       .hint = fmt::format("apt-get install {}", words.front())});
  }
  if (result.exit_code == 0) return;
  throw DataError({.attempted = fmt::format("unpacking {}", file.string()),
                   .found = fmt::format("{} says \"{}\"", words.front(), last_words(result.output)),
                   .expected = "a complete archive, and free space on the disk",
                   .hint = "If it is truncated, remove it and fetch it again."});
}

}  // namespace

fs::path fetch_file(const FetchRequest& request, const std::function<void(int64_t)>& progress) {
  const fs::path file = request.folder / name_in(request.url);
  std::error_code error;
  fs::create_directories(request.folder, error);
  if (error) refuse(request, error.message(), "a folder to write to", "Name another with --out.");
  if (!fs::exists(file)) {
    const fs::path part = file.string() + ".part";
    const int64_t bytes_before = size_of(part);
    ProgramResult result = run_curl(request, part, progress);
    if (is_stuck(result, bytes_before)) {
      fs::remove(part, error);
      result = run_curl(request, part, progress);
    }
    if (result.exit_code != 0) refuse_loading(request, result);
    // curl does not create a file if the download is empty.
    if (!fs::exists(part)) refuse(request, "an empty file", "a file that is not empty", "");
    check_sum(request, part);
    fs::rename(part, file, error);
    if (error) refuse(request, error.message(), "a folder to write to", "Name another with --out.");
  } else {
    check_sum(request, file);
  }
  return file;
}

void unpack_file(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const std::string name = file.filename().string();
  if (name.ends_with(".zip"))
    return run_unpacker(file, {"unzip", "-q", "-o", file.string(), "-d", folder.string()});
  const bool is_tar = name.find(".tar") != std::string::npos || name.ends_with(".tgz");
  if (is_tar) return run_unpacker(file, {"tar", "-x", "-f", file.string(), "-C", folder.string()});
  throw DataError({.attempted = fmt::format("unpacking {}", file.string()),
                   .found = "a file that is not an archive",
                   .expected = ".tar, .tar.gz, .tar.bz2, .tar.xz, .tgz or .zip",
                   .hint = "Omit --unpack."});
}

}  // namespace sotto::data
