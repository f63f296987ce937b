#include "sotto/data/import/import_durations.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <mutex>
#include <span>
#include <system_error>

#include "sotto/core/error.h"
#include "sotto/core/parallel.h"
#include "sotto/data/audio/audio.h"
#include "sotto/data/audio/audio_path.h"
#include "sotto/data/audio/tar_shards.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

std::optional<DurationStore::Stamp> stamp_of(const fs::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  constexpr int64_t kBillion = 1'000'000'000;
  return DurationStore::Stamp{
      .bytes = status.st_size,
      .changed_ns = status.st_mtim.tv_sec * kBillion + status.st_mtim.tv_nsec};
}

// Returns whether a name can be a field of a line.
bool fits_a_line(const std::string& name) {
  return name.find_first_of("\t\n\r") == std::string::npos;
}

// Reads all items, on all cores.
class DurationReader {
 public:
  DurationReader(std::vector<ImportItem>& items, DurationStore& store,
                 std::vector<std::string>& faults)
      : items_(items), store_(store), faults_(faults) {}

  DurationCounts run(const std::function<void(int64_t, int64_t)>& progress) {
    const int64_t total = std::ssize(items_);
    int64_t num_done = 0;
    parallel_for(total, [&](int64_t i) {
      take(static_cast<size_t>(i));
      const std::lock_guard lock(mutex_);
      ++num_done;
      if (progress) progress(num_done, total);
    });
    return {.num_read = num_read_, .num_resumed = num_resumed_};
  }

 private:
  void take(size_t i) {
    ImportItem& item = items_[i];
    const std::optional<DurationStore::Stamp> stamp = stamp_of(file_on_disk(item.file));
    if (!stamp)
      faults_[i] = fmt::format("{}: {}", item.file, std::generic_category().message(errno));
    if (!stamp || item.duration_s > 0.0) return;
    const std::string name = fs::absolute(item.file).lexically_normal().string();
    std::optional<double> whole_s = store_.find(name, *stamp);
    if (whole_s) {
      ++num_resumed_;
    } else {
      try {
        whole_s = audio_info(item.file, shards_).seconds();
      } catch (const DataError& error) {
        faults_[i] = error.what();
        return;
      }
      ++num_read_;
      store_.add(name, *stamp, *whole_s);
    }
    item.duration_s = *whole_s - item.offset_s.value_or(0.0);
    if (item.duration_s > 0.0) return;
    faults_[i] = *whole_s == 0.0
                     ? fmt::format("{}: no samples", item.file)
                     : fmt::format("{}: it ends at {:.3f} s, but the segment starts at {} s",
                                   item.file, *whole_s, *item.offset_s);
  }

  std::vector<ImportItem>& items_;
  DurationStore& store_;
  std::vector<std::string>& faults_;
  TarShards shards_;
  std::atomic<int64_t> num_read_ = 0;
  std::atomic<int64_t> num_resumed_ = 0;
  // Guards the progress.
  std::mutex mutex_;
};

}  // namespace

DurationStore::DurationStore(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) return;
  TextLines lines(path_, "durations of an import");
  // An incomplete line has fewer fields, or a name whose stamp does not match.
  while (const std::optional<std::string_view> line = lines.next()) take_line(*line);
}

// Format: "2.25\t72044\t1700000000000000000\t/data/a.wav"
void DurationStore::take_line(std::string_view line) {
  Entry entry;
  std::array<std::string_view, 3> fields;
  for (std::string_view& field : fields) {
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos) return;
    field = line.substr(0, tab);
    line.remove_prefix(tab + 1);
  }
  const auto whole = [](std::string_view text, int64_t& number) {
    const auto [last, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    return code == std::errc{} && last == text.data() + text.size();
  };
  const std::optional<double> duration_s = parse_number(fields[0]);
  if (!duration_s || *duration_s < 0.0 || !whole(fields[1], entry.stamp.bytes) ||
      !whole(fields[2], entry.stamp.changed_ns) || line.empty())
    return;
  entry.duration_s = *duration_s;
  entries_[std::string(line)] = entry;
}

std::optional<double> DurationStore::find(const std::string& file, const Stamp& stamp) const {
  const auto at = entries_.find(file);
  if (at == entries_.end() || at->second.stamp != stamp) return std::nullopt;
  return at->second.duration_s;
}

void DurationStore::add(const std::string& file, const Stamp& stamp, double duration_s) {
  if (!fits_a_line(file)) return;
  const std::string line =
      fmt::format("{}\t{}\t{}\t{}\n", duration_s, stamp.bytes, stamp.changed_ns, file);
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) {
    std::error_code ignored;  // creating the file reports a better error
    fs::create_directories(path_.parent_path(), ignored);
    file_ = std::make_unique<OutputFile>(OutputFile::append(path_));
    // Separates new lines from an incomplete one.
    file_->write(std::as_bytes(std::span("\n", 1)));
  }
  file_->write(std::as_bytes(std::span(line)));
}

void DurationStore::remove() {
  file_.reset();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

DurationCounts read_durations(std::vector<ImportItem>& items, DurationStore& store,
                              std::vector<std::string>& faults,
                              const std::function<void(int64_t, int64_t)>& progress) {
  faults.assign(items.size(), {});
  return DurationReader(items, store, faults).run(progress);
}

}  // namespace sotto::data
