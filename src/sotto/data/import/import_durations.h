// Durations of the items of an import, from the headers of their files, on all cores.
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

// Durations that were read before, in a file beside the manifest: one line a file, with size and
// time of change, by which a file that became another one is known. A line that a killed process
// left half is passed over.
class DurationStore {
 public:
  // What tells a file from another of that name.
  struct Stamp {
    int64_t bytes = 0;
    int64_t changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  explicit DurationStore(std::filesystem::path path);

  std::optional<double> find(const std::string& file, const Stamp& stamp) const;
  // Writes it at once. May be called from several threads. Throws DataError where there is no room.
  void add(const std::string& file, const Stamp& stamp, double duration_s);
  // The file is of no use once the manifest is there.
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

// Fills in what is 0; of the others only looks whether the file is there. What is wrong with an
// item goes into `faults` at its place. Throws what is no fault of a file: a build without audio, a
// full disk.
DurationCounts read_durations(std::vector<ImportItem>& items, DurationStore& store,
                              std::vector<std::string>& faults,
                              const std::function<void(int64_t, int64_t)>& progress);

}  // namespace sotto::data
