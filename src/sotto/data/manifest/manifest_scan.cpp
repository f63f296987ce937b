#include "sotto/data/manifest/manifest_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "sotto/core/parallel.h"
#include "sotto/core/utf8.h"

namespace sotto::data {

namespace {

// A thread processes the lines that begin in this many bytes at a time.
constexpr int64_t kPieceBytes = int64_t{2} << 20;
constexpr int64_t kMostLineBytes = int64_t{16} << 20;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// The bytes of the lines that begin inside a piece, to the end of the last of them.
class Piece {
 public:
  Piece(const InputFile& file, int64_t number) : file_(file) {
    const int64_t begin = number * kPieceBytes;
    const int64_t end = std::min(begin + kPieceBytes, file.size());
    // Starts at the preceding byte, which shows whether a line begins at the very start.
    first_ = std::max<int64_t>(begin - 1, 0);
    append(end - first_);
    if (begin > 0) {
      const size_t stop = bytes_.find('\n');
      start_ = stop == std::string::npos ? bytes_.size() : stop + 1;
    }
    finish_last_line();
  }

  int64_t offset() const { return first_ + static_cast<int64_t>(start_); }
  std::string_view lines() const { return std::string_view(bytes_).substr(start_); }

 private:
  void append(int64_t count) {
    const size_t before = bytes_.size();
    bytes_.resize(before + static_cast<size_t>(count));
    const int64_t got =
        file_.read(first_ + static_cast<int64_t>(before), std::span(bytes_).subspan(before));
    bytes_.resize(before + static_cast<size_t>(got));
  }

  void finish_last_line() {
    constexpr int64_t kMore = int64_t{64} << 10;
    size_t searched = bytes_.size();
    if (start_ == bytes_.size() || bytes_.back() == '\n') return;
    while (true) {
      append(kMore);
      if (bytes_.size() == searched) return;  // end of the file
      const size_t stop = bytes_.find('\n', searched);
      if (stop != std::string::npos) return bytes_.resize(stop + 1);
      searched = bytes_.size();
      if (static_cast<int64_t>(searched) > kMostLineBytes + kPieceBytes) {
        refuse_file(file_.path(), "a line of more than 16 MiB",
                    "a manifest: JSON lines, one utterance per line", {});
      }
    }
  }

  const InputFile& file_;
  int64_t first_ = 0;
  size_t start_ = 0;
  std::string bytes_;
};

// Calls `visit` with each line, without its line end, and with its offset in the file.
template <class Visit>
void for_each_line(const Piece& piece, Visit visit) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view rest = piece.lines();
  int64_t offset = piece.offset();
  while (!rest.empty()) {
    const size_t length = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, length);
    const size_t mark = offset == 0 && line.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    visit(line.substr(mark), offset + static_cast<int64_t>(mark));
    offset += static_cast<int64_t>(length) + 1;
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
}

// Set of code points; nearly all of them are below 2^16.
class CharacterSet {
 public:
  void add(char32_t character) {
    if (character / kBits < common_.size()) {
      common_[character / kBits] |= uint64_t{1} << character % kBits;
    } else {
      others_.insert(character);
    }
  }
  void move_into(std::set<char32_t>& all) {
    for (size_t word = 0; word < common_.size(); ++word) {
      for (uint64_t rest = common_[word]; rest != 0; rest &= rest - 1)
        all.insert(
            static_cast<char32_t>(word * kBits + static_cast<size_t>(std::countr_zero(rest))));
    }
    all.merge(others_);
  }

 private:
  static constexpr size_t kBits = 64;
  // A bit for each code point.
  std::array<uint64_t, (1 << 16) / kBits> common_ = {};
  std::set<char32_t> others_;
};

// The content of one piece. Line numbers count from its first line.
struct ScannedPiece {
  ManifestScan scan;
  ManifestColumns columns;
};

class PieceScanner {
 public:
  explicit PieceScanner(int64_t feature_dim) { scan_.feature_dim = feature_dim; }

  ScannedPiece scan(const Piece& piece) {
    for_each_line(piece, [&](std::string_view line, int64_t offset) { take_line(line, offset); });
    characters_.move_into(scan_.characters);
    return {.scan = std::move(scan_), .columns = std::move(columns_)};
  }

 private:
  void take_line(std::string_view line, int64_t offset) {
    ++scan_.num_lines;
    if (is_blank(line)) return;
    std::variant<Utterance, LineFault> parsed = parse_manifest_line(line);
    if (auto* fault = std::get_if<LineFault>(&parsed)) return keep(std::move(*fault));
    const auto& utterance = std::get<Utterance>(parsed);
    if (utterance.feature_dim != scan_.feature_dim) {
      return keep(
          {.found = source_kind(utterance.feature_dim),
           .expected = fmt::format("{}, as in its first line", source_kind(scan_.feature_dim)),
           .hint = "A manifest has either audio or features."});
    }
    columns_.offsets.push_back(static_cast<uint64_t>(offset));
    columns_.num_bytes.push_back(static_cast<uint32_t>(line.size()));
    columns_.hashes.push_back(static_cast<uint32_t>(hash_bytes(line)));
    columns_.lines.push_back(static_cast<uint32_t>(scan_.num_lines));
    columns_.durations_s.push_back(static_cast<float>(utterance.duration_s));
    columns_.num_frames.push_back(static_cast<uint32_t>(utterance.num_frames));
    columns_.num_characters.push_back(count_characters(utterance.text));
  }

  // Runs of spaces count as one, leading and trailing spaces are not counted.
  uint32_t count_characters(std::string_view text) {
    uint32_t count = 0;
    bool has_space = false;
    for_each_code_point(text, [&](char32_t character) {
      characters_.add(character);
      if (character == U' ') {
        has_space = count > 0;
        return;
      }
      count += has_space ? 2 : 1;
      has_space = false;
    });
    return count;
  }

  void keep(LineFault fault) {
    ++scan_.num_bad_lines;
    if (scan_.bad_lines.size() >= ManifestScan::kMostBadLines) return;
    scan_.bad_lines.push_back({.line = scan_.num_lines, .fault = std::move(fault)});
  }

  ManifestScan scan_;
  ManifestColumns columns_;
  CharacterSet characters_;
};

// Returns the kind of the first utterance; 0 if there is none.
int64_t first_feature_dim(const InputFile& file) {
  std::optional<int64_t> found;
  for (int64_t number = 0; number * kPieceBytes < file.size() && !found; ++number) {
    const Piece piece(file, number);
    for_each_line(piece, [&](std::string_view line, int64_t) {
      if (found) return;
      const auto parsed = parse_manifest_line(line);
      if (const auto* utterance = std::get_if<Utterance>(&parsed)) found = utterance->feature_dim;
    });
  }
  return found.value_or(0);
}

// Joins pieces in order, whatever the order in which they arrive.
class PieceJoiner {
 public:
  PieceJoiner(ManifestScan& all, const std::function<void(ManifestColumns)>& take)
      : all_(all), take_(take) {}

  // Must be called by one thread at a time.
  void add(int64_t number, ScannedPiece piece) {
    waiting_.emplace(number, std::move(piece));
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_;
         first = waiting_.erase(first), ++next_)
      join(first->second);
  }

 private:
  void join(ScannedPiece& piece) {
    for (uint32_t& line : piece.columns.lines) line += static_cast<uint32_t>(all_.num_lines);
    take_(std::move(piece.columns));
    for (BadLine& bad : piece.scan.bad_lines) {
      if (all_.bad_lines.size() >= ManifestScan::kMostBadLines) break;
      bad.line += all_.num_lines;
      all_.bad_lines.push_back(std::move(bad));
    }
    all_.num_bad_lines += piece.scan.num_bad_lines;
    all_.num_lines += piece.scan.num_lines;
    all_.characters.merge(piece.scan.characters);
  }

  ManifestScan& all_;
  const std::function<void(ManifestColumns)>& take_;
  std::map<int64_t, ScannedPiece> waiting_;
  int64_t next_ = 0;
};

}  // namespace

ManifestScan scan_manifest(const InputFile& file, const IndexOptions& options,
                           const std::function<void(ManifestColumns)>& take) {
  ManifestScan all;
  all.feature_dim = first_feature_dim(file);
  const int64_t num_pieces = (file.size() + kPieceBytes - 1) / kPieceBytes;
  PieceJoiner joiner(all, take);
  std::mutex mutex;
  int64_t num_done = 0;
  const int64_t feature_dim = all.feature_dim;
  parallel_for(
      num_pieces,
      [&](int64_t number) {
        ScannedPiece piece = PieceScanner(feature_dim).scan(Piece(file, number));
        const std::lock_guard lock(mutex);
        joiner.add(number, std::move(piece));
        ++num_done;
        if (options.on_progress)
          options.on_progress(std::min(num_done * kPieceBytes, file.size()), file.size());
      },
      options.num_threads);
  return all;
}

}  // namespace sotto::data
