#include "sotto/data/import/split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/data/manifest/manifest.h"
#include "sotto/data/manifest/manifest_paths.h"
#include "sotto/data/manifest/manifest_writer.h"
#include "sotto/data/text/text_lines.h"

namespace sotto::data {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& manifest, std::string found, std::string expected,
                         std::string hint) {
  throw ConfigError({.attempted = fmt::format("splitting {}", manifest.string()),
                     .found = std::move(found),
                     .expected = std::move(expected),
                     .hint = std::move(hint)});
}

// Utterances that stay together: those of a speaker, or a single one.
struct Group {
  int64_t num_utterances = 0;
  double seconds = 0.0;
  // Index in kParts; all are train until another part takes them.
  size_t part = 0;
};

constexpr std::array<const char*, 3> kParts = {"train", "dev", "test"};

class Splitter {
 public:
  Splitter(const fs::path& path, const SplitOptions& options)
      : path_(path), options_(options), manifest_(Manifest::read(path)) {
    manifest_.refuse_bad_lines();
  }

  SplitResult run() {
    group();
    const RandomStream stream({.seed = options_.seed, .purpose = Purpose::kShuffle});
    order_ = stream.permutation(std::ssize(groups_));
    check_sizes();
    choose(2, options_.test, options_.dev.is_empty() ? 1 : 2);
    choose(1, options_.dev, 1);
    return write();
  }

 private:
  int64_t num_parts() const {
    return 1 + (options_.dev.is_empty() ? 0 : 1) + (options_.test.is_empty() ? 0 : 1);
  }

  void group() {
    std::map<std::string, int64_t> speakers;
    std::optional<int64_t> first_without;
    for (int64_t u = 0; u < manifest_.size(); ++u) {
      const Utterance utterance = manifest_.at(u);
      if (utterance.speaker.empty() && !first_without) first_without = utterance.line;
      const auto next = static_cast<int64_t>(speakers.size());
      group_of_.push_back(speakers.emplace(utterance.speaker, next).first->second);
    }
    by_ = options_.by;
    const bool is_possible = !first_without && std::ssize(speakers) >= num_parts();
    if (by_ == SplitBy::kAuto) by_ = is_possible ? SplitBy::kSpeaker : SplitBy::kRandom;
    constexpr const char* kHint = "--by random ignores speakers.";
    if (by_ == SplitBy::kSpeaker && first_without) {
      refuse(path_, fmt::format("line {} has no speaker", *first_without),
             "a speaker on every line", kHint);
    }
    if (by_ == SplitBy::kSpeaker && std::ssize(speakers) < num_parts()) {
      refuse(path_,
             fmt::format("{} speaker{} for {} parts", speakers.size(),
                         speakers.size() == 1 ? "" : "s", num_parts()),
             "at least one per part", kHint);
    }
    if (by_ == SplitBy::kRandom) {
      for (int64_t u = 0; u < manifest_.size(); ++u) group_of_[static_cast<size_t>(u)] = u;
    }
    groups_.resize(by_ == SplitBy::kRandom ? group_of_.size() : speakers.size());
    for (int64_t u = 0; u < manifest_.size(); ++u) {
      Group& group = group_at(u);
      ++group.num_utterances;
      group.seconds += manifest_.duration_s(u);
      total_s_ += manifest_.duration_s(u);
    }
  }

  Group& group_at(int64_t utterance) {
    return groups_[static_cast<size_t>(group_of_[static_cast<size_t>(utterance)])];
  }

  void check_sizes() const {
    if (std::ssize(groups_) < num_parts()) {
      refuse(path_, fmt::format("{} utterances for {} parts", groups_.size(), num_parts()),
             "at least one per part", {});
    }
    double share = 0.0;
    for (const PartSize& size : {options_.dev, options_.test})
      share += size.share + static_cast<double>(size.count) / static_cast<double>(manifest_.size());
    if (share < 1.0) return;
    refuse(path_,
           fmt::format("dev {} and test {} of {} utterances", options_.dev.to_string(),
                       options_.test.to_string(), manifest_.size()),
           "utterances left to train on", {});
  }

  // Assigns groups to a part, in the drawn order, as long as each brings it closer to its size, and
  // keeps `num_others` for the following parts.
  void choose(size_t part, const PartSize& size, int64_t num_others) {
    if (size.is_empty()) return;
    const auto weight = [&](const Group& group) {
      return size.count > 0 ? static_cast<double>(group.num_utterances) : group.seconds;
    };
    const double target = size.count > 0 ? static_cast<double>(size.count) : size.share * total_s_;
    int64_t num_free = std::ranges::count(groups_, size_t{0}, &Group::part);
    double taken = 0.0;
    Group* nearest = nullptr;
    for (const int64_t at : order_) {
      Group& group = groups_[static_cast<size_t>(at)];
      if (group.part != 0 || num_free <= num_others) continue;
      if (nearest == nullptr ||
          std::abs(weight(group) - target) < std::abs(weight(*nearest) - target))
        nearest = &group;
      const bool is_nearer = std::abs(taken + weight(group) - target) < std::abs(taken - target);
      // For speakers a smaller one may still fit; for utterances this would prefer the short ones.
      if (!is_nearer && by_ == SplitBy::kRandom) break;
      if (!is_nearer) continue;
      group.part = part;
      taken += weight(group);
      --num_free;
    }
    if (taken == 0.0 && nearest != nullptr) nearest->part = part;
  }

  // A part of an older split would keep lines that are now in another one. This holds even for a
  // part that this split does not write.
  void check_folder() const {
    std::vector<std::string> present;
    for (const char* part : kParts) {
      const fs::path path = options_.out / fmt::format("{}.jsonl", part);
      std::error_code ignored;
      if (fs::equivalent(path, path_, ignored))
        refuse(path_, "it would be replaced by a part of itself", "another folder with --out", {});
      if (fs::exists(path, ignored)) present.push_back(path.string());
    }
    if (present.empty()) return;
    refuse(path_, fmt::format("existing files: {}", fmt::join(present, ", ")),
           "a folder without parts of another split",
           "Remove them, or name another folder with --out.");
  }

  SplitResult write() {
    check_folder();
    SplitResult result{.by = by_, .parts = {}};
    std::array<std::unique_ptr<ManifestWriter>, kParts.size()> writers;
    std::array<SplitPart, kParts.size()> parts;
    for (size_t i = 0; i < kParts.size(); ++i) {
      const bool is_wanted = i == 0 || !(i == 1 ? options_.dev : options_.test).is_empty();
      parts[i] = {.name = kParts[i], .manifest = options_.out / fmt::format("{}.jsonl", kParts[i])};
      if (!is_wanted) continue;
      writers[i] = std::make_unique<ManifestWriter>(parts[i].manifest);
    }
    count(parts);
    copy_lines(writers);
    for (size_t i = 0; i < kParts.size(); ++i) {
      if (writers[i] == nullptr) continue;
      writers[i]->finish();
      result.parts.push_back(parts[i]);
    }
    return result;
  }

  void count(std::array<SplitPart, kParts.size()>& parts) {
    std::array<std::set<std::string>, kParts.size()> speakers;
    for (int64_t u = 0; u < manifest_.size(); ++u) {
      const Utterance utterance = manifest_.at(u);
      const size_t part = group_at(u).part;
      ++parts[part].num_utterances;
      parts[part].seconds += utterance.duration_s;
      if (!utterance.speaker.empty()) speakers[part].insert(utterance.speaker);
    }
    for (size_t i = 0; i < parts.size(); ++i) parts[i].num_speakers = std::ssize(speakers[i]);
  }

  template <class Writers>
  void copy_lines(const Writers& writers) {
    ManifestPaths paths(options_.out);
    for (int64_t u = 0; u < manifest_.size(); ++u)
      writers[group_at(u).part]->add_line(moved_line(manifest_, u, paths));
  }

  const fs::path& path_;
  const SplitOptions& options_;
  Manifest manifest_;
  SplitBy by_ = SplitBy::kAuto;
  // Group index of each utterance.
  std::vector<int64_t> group_of_;
  std::vector<Group> groups_;
  std::vector<int64_t> order_;
  double total_s_ = 0.0;
};

}  // namespace

PartSize PartSize::parse(std::string_view text) {
  PartSize size;
  std::string_view digits = text;
  const bool is_share = digits.ends_with('%');
  if (is_share) digits.remove_suffix(1);
  const std::optional<double> number = parse_number(digits);
  const bool is_right = number && *number >= 0.0 &&
                        (is_share ? *number < 100.0 : *number <= 1e12) &&
                        (is_share || std::floor(*number) == *number);
  if (!is_right) {
    throw ConfigError({.attempted = "reading the size of a part",
                       .found = fmt::format("'{}'", text),
                       .expected = "a share such as 5%, a number of utterances such as 200, or 0"});
  }
  if (is_share) {
    size.share = *number / 100.0;
  } else {
    size.count = static_cast<int64_t>(*number);
  }
  return size;
}

std::string PartSize::to_string() const {
  return count > 0 ? fmt::format("{}", count) : fmt::format("{:.4g}%", share * 100.0);
}

SplitResult split_manifest(const fs::path& manifest, const SplitOptions& options) {
  return Splitter(manifest, options).run();
}

}  // namespace sotto::data
