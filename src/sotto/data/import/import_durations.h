// Reads the durations of the items of an import from the headers of their files, on all cores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sotto/core/files/output_file.h"
#include "sotto/data/import/import_sources.h"

namespace sotto::data {

// Durations from an earlier run, in a file next to the manifest: one line per file, with size and
// modification time, by which a changed file is detected. An incomplete line of a killed process is
// skipped.
class DurationStore {
 public:
  // Identifies a version of a file.
  struct Stamp {
    int64_t bytes = 0;
    int64_t changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  explicit DurationStore(std::filesystem::path path);

  std::optional<double> find(const std::string& file, const Stamp& stamp) const;
  // Writes an entry immediately. Thread-safe. Throws DataError where the disk is full.
  void add(const std::string& file, const Stamp& stamp, double duration_s);
  // Removes the file, which is not needed once the manifest exists.
  void remove();

 private:
  struct Entry {
    Stamp stamp;
    double duration_s = 0.0;
  };

  void take_line(std::string_view line);

  std::filesystem::path path_;
  std::unordered_map<std::string, Entry> entries_;
  std::mutex mutex_;
  std::unique_ptr<OutputFile> file_;
};

struct DurationCounts {
  int64_t num_read = 0;
  int64_t num_resumed = 0;
};

// Fills in durations that are 0; for the others only checks that the file exists. Faults of an item
// are stored in `faults` at its index. Throws errors that are not faults of a file: a build without
// audio, a full disk.
DurationCounts read_durations(std::vector<ImportItem>& items, DurationStore& store,
                              std::vector<std::string>& faults,
                              const std::function<void(int64_t, int64_t)>& progress);

}  // namespace sotto::data
