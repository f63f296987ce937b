// The record of a run: an append-only file of JSON lines (metrics.jsonl). Lines are written
// completely or not at all, even after a crash or on a full disk. The first line is a header with
// `format_version` and `kind`.
//
// JSON cannot represent numbers that are not finite, yet a loss may become one: they are written as
// the strings "nan", "inf" and "-inf"; record_number() converts them back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace sotto {

inline constexpr int64_t kRunRecordFormatVersion = 1;

class RunRecord {
 public:
  // Creates the file or continues it: a last line that a crash has truncated is dropped. Throws
  // DataError where it cannot be written, is not a run record, is of a newer format, or where
  // another process is writing it.
  static RunRecord open(const std::filesystem::path& path);

  ~RunRecord();
  RunRecord(RunRecord&& other) noexcept;
  RunRecord& operator=(RunRecord&& other) noexcept;
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  // Truncates the file, at a line end and in one system call, before the first record for which
  // `kept` is false. Returns the number of bytes removed. Throws DataError, which leaves the file
  // unchanged.
  int64_t cut_back(const std::function<bool(const nlohmann::json&)>& kept);

  // Writes one object as one line. Throws DataError where it does not fit on the disk; the file is
  // then unchanged, and the next append may succeed.
  void append(const nlohmann::json& record);

  // Returns when all appended records would survive a power failure.
  void sync();

 private:
  RunRecord(std::filesystem::path path, int descriptor);

  void continue_file();
  void write_line(std::string_view line);
  void cut();
  void close() noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  // Total bytes of complete lines.
  int64_t size_ = 0;
  // A partial line follows the complete lines and could not be truncated yet.
  bool has_rest_ = false;
};

struct RunRecordContent {
  // All records except the header.
  std::vector<nlohmann::json> records;
  // The last line was truncated by a crash and is omitted.
  bool has_cut_tail = false;
};

// Reads all complete records of a file, which may still be growing. Throws DataError where it is
// missing, not a run record, of a newer format, or broken anywhere but at its end.
RunRecordContent read_run_record(const std::filesystem::path& path);

// Converts a number of a record, including "nan", "inf" and "-inf". Throws DataError for anything
// else.
double record_number(const nlohmann::json& value);

}  // namespace sotto
