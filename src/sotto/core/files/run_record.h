// The record of a run: a file of JSON lines that only grows (metrics.jsonl). A line is there whole
// or not at all: after a crash, and on a full disk too. The first line is a header with
// `format_version` and `kind`.
//
// JSON has no word for numbers that are not finite, yet a loss may become one: they are written as
// the strings "nan", "inf" and "-inf"; record_number() turns them back.
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
  // Creates the file, or continues it: a last line that a crash cut short is dropped. Throws
  // DataError where it cannot be written, is no run record, is of a newer format, or where another
  // process is writing it.
  static RunRecord open(const std::filesystem::path& path);

  ~RunRecord();
  RunRecord(RunRecord&& other) noexcept;
  RunRecord& operator=(RunRecord&& other) noexcept;
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  // Cuts off the first record that is not `kept` and all behind it, at the end of a line, in one
  // call of the system. Returns how many bytes are gone. Throws DataError; the file is then as
  // before.
  int64_t cut_back(const std::function<bool(const nlohmann::json&)>& kept);

  // Writes one object as one line. Throws DataError where it does not fit on the disk; the file is
  // then as before, and the next append may succeed.
  void append(const nlohmann::json& record);

  // Returns when all that was appended would survive a power failure.
  void sync();

 private:
  RunRecord(std::filesystem::path path, int descriptor);

  void continue_file();
  void write_line(std::string_view line);
  void cut();
  void close() noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  // Bytes of whole lines.
  int64_t size_ = 0;
  // Part of a line stands behind them and could not be cut off yet.
  bool has_rest_ = false;
};

struct RunRecordContent {
  // Without the header.
  std::vector<nlohmann::json> records;
  // The last line was cut short by a crash, and left out.
  bool has_cut_tail = false;
};

// All whole records of a file, which may still be growing. Throws DataError where it is missing, no
// run record, of a newer format, or broken anywhere but at its end.
RunRecordContent read_run_record(const std::filesystem::path& path);

// A number of a record, "nan", "inf" and "-inf" included. Throws DataError for anything else.
double record_number(const nlohmann::json& value);

}  // namespace sotto
