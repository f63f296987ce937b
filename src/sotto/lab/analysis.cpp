#include "sotto/lab/analysis.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sotto/core/units.h"
#include "sotto/lab/comparison.h"

namespace sotto::lab {

namespace {

// Returns the value of a setting of the experiment; the last assignment counts. Empty if not given.
std::string setting_of(const Result& result, std::string_view key) {
  std::string value;
  for (const std::string& setting : result.settings) {
    const size_t equals = setting.find('=');
    if (std::string_view(setting).substr(0, equals) == key) value = setting.substr(equals + 1);
  }
  return value;
}

bool differs(const Result& a, const Result& b, std::string_view key) {
  return setting_of(a, key) != setting_of(b, key);
}

// Returns all settings but one, by key; the last assignment counts. Seeds are not compared.
std::map<std::string, std::string> settings_but(const Result& result, std::string_view key) {
  std::map<std::string, std::string> settings;
  for (const auto* list : {&result.settings, &result.decided}) {
    for (const std::string& setting : *list) {
      const size_t equals = setting.find('=');
      settings[setting.substr(0, equals)] =
          setting.substr(std::min(equals, setting.size() - 1) + 1);
    }
  }
  settings.erase(std::string(key));
  settings.erase("seed");
  return settings;
}

bool has_16_bits(const Result& result) {
  const std::string numerics = setting_of(result, "numerics");
  return numerics == "bf16-exact" || numerics == "fp16";
}

bool recomputes(const Result& result) {
  return setting_of(result, "tier") == "block";
}

bool is_tiled(const Result& result) {
  return setting_of(result, "model.attention") == "tiled";
}

bool has_no_effect(const Result& result) {
  return result.note.starts_with("no effect");
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100.0 * share);
}

class Analysis {
 public:
  explicit Analysis(const Comparison& comparison) : all_(comparison) {
    for (const Result& row : comparison.rows)
      if (row.is_done()) done_.push_back(&row);
  }

  std::vector<std::string> sentences() {
    if (done_.empty()) return {"No experiment was completed."};
    if (done_.size() == 1)
      return {
          fmt::format("Only {} was completed: there is nothing to compare.", done_.front()->name)};
    say_noise();
    say_differences();
    say_memory();
    say_speed();
    say_largest_batch();
    say_quality();
    say_why();
    say_why_slower();
    recommend();
    return std::move(sentences_);
  }

 private:
  template <class... Values>
  void say(fmt::format_string<Values...> text, Values&&... values) {
    sentences_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  const Result& first() const { return *done_.front(); }
  // The standard run of limits may be an estimate; other figures are measured or not used.
  bool has_memory() const {
    return all_.kind == Suite::Kind::kLimits ||
           std::ranges::none_of(done_, [](const Result* row) { return row->memory.empty(); });
  }

  // Other batches or lengths make other work of a step.
  void say_differences() {
    constexpr int64_t kFewSteps = 20;
    for (const Result* row : done_) {
      if (row->settings.empty()) continue;
      if (row->batch == first().batch && row->num_steps == first().num_steps) continue;
      if (first().settings.empty()) continue;
      say("{} has a batch of {} and {} steps, {} has {} and {}: speeds are those through the data, "
          "and memory and quality are of other work.",
          row->name, row->batch, row->num_steps, first().name, first().batch, first().num_steps);
    }
    if (first().num_steps > 0 && first().num_steps < kFewSteps)
      say("Only {} steps were run: times are rough.", first().num_steps);
    for (const Result* row : done_) {
      if (row->device == first().device || first().device.empty()) continue;
      say("{} ran on {}, {} on {}: their speeds are not compared.", row->name, row->device,
          first().name, first().device);
    }
  }

  void say_noise() {
    if (!all_.noise) {
      say("No experiment was repeated with another seed: differences in time and quality are not "
          "judged.");
      return;
    }
    say("Noise: {} seeds of {} differ by {:.1f} % in time per step{}.", all_.noise->num_seeds,
        all_.noise->experiment, 100.0 * all_.noise->seconds,
        first().quality()
            ? fmt::format(" and {:.2f} % in {}", 100.0 * all_.noise->quality, quality_name())
            : "");
  }

  const char* quality_name() const {
    return first().is_text() ? "validation perplexity" : "word error rate";
  }

  std::string quality_of(const Result& result) const {
    return quality_text(result, all_.quality_of(result).value_or(0.0));
  }

  const Result& least_memory() const {
    // Among rows with equal memory, the fastest is chosen.
    return **std::ranges::min_element(done_, {}, [this](const Result* row) {
      return std::pair(row->peak_bytes(), -all_.speed_up(*row));
    });
  }

  const Result& fastest() const {
    // A setting without effect is no reason for a difference.
    return **std::ranges::max_element(done_, {}, [this](const Result* row) {
      return has_no_effect(*row) ? 0.0 : all_.speed_up(*row);
    });
  }

  void say_memory() {
    if (!has_memory()) return;
    const Result& least = least_memory();
    if (first().memory.empty())
      say("The memory of {} is an estimate; it was not measured.", first().name);
    if (&least == &first()) return say("No experiment needs less memory than {}.", first().name);
    say("Most effective for memory: {} with a peak of {}, {} less than {}.", least.name,
        format_bytes(least.peak_bytes()), percent(1.0 - all_.memory_share(least)), first().name);
  }

  void say_speed() {
    const Result& best = fastest();
    if (&best == &first() || !all_.differs_in_time(best, first())) return;
    say("Fastest: {}, {:.2f} times as fast as {}.", best.name, all_.speed_up(best), first().name);
  }

  void say_largest_batch() {
    const auto size = [](const Result* row) { return row->largest ? row->largest->tried : 0; };
    const Result& most = **std::ranges::max_element(done_, {}, size);
    if (size(&most) == 0 || size(&most) <= size(&first()) || size(&first()) == 0) return;
    say("Largest batch: {} fits {} items where {} fits {}.", most.name, size(&most), first().name,
        size(&first()));
  }

  void say_quality() {
    if (!all_.noise || !first().quality()) return;
    std::vector<std::string> others;
    for (const Result* row : done_) {
      if (row == &first() || !all_.differs_in_quality(*row, first())) continue;
      others.push_back(
          fmt::format("{} ({} instead of {})", row->name, quality_of(*row), quality_of(first())));
    }
    if (others.empty()) {
      say("Quality: no experiment changes the {} by more than the seeds do.", quality_name());
    } else {
      say("Quality: beyond the noise of seeds, the {} differs in {}.", quality_name(),
          fmt::join(others, ", "));
    }
  }

  // A pair of rows that differ in one setting alone.
  struct Pair {
    const Result* without;
    const Result* with;
  };
  template <class Has>
  std::optional<Pair> pair_for(std::string_view changed, Has has) const {
    for (const Result* a : done_) {
      for (const Result* b : done_) {
        // A run of another program has no settings.
        if (a->settings.empty() || b->settings.empty() || has(*a) || !has(*b)) continue;
        if (settings_but(*a, changed) == settings_but(*b, changed))
          return Pair{.without = a, .with = b};
      }
    }
    return std::nullopt;
  }

  std::string saved(const Pair& pair) const {
    const int64_t before = pair.without->peak_bytes(), after = pair.with->peak_bytes();
    return fmt::format("{} instead of {}", format_bytes(after), format_bytes(before));
  }

  // Time relative to the row without; empty within the noise.
  std::string slower(const Pair& pair) const {
    if (!all_.differs_in_time(*pair.with, *pair.without)) return "";
    const double ratio = pair.with->seconds_per_step / pair.without->seconds_per_step;
    return ratio > 1.0 ? fmt::format(", and takes {:.2f} times as long", ratio)
                       : fmt::format(", and is {:.2f} times as fast", 1.0 / ratio);
  }

  void say_why() {
    if (!has_memory()) return;
    if (const auto pair = pair_for("numerics", has_16_bits))
      say("Why: 16-bit activations take half of the bytes; weights, gradients and moments take as "
          "many as before. {} has a peak of {}{}.",
          pair->with->name, saved(*pair), slower(*pair));
    if (const auto pair = pair_for("model.attention", is_tiled))
      say("Why: attention in tiles stores no scores, whose bytes grow with the square of the "
          "sequence. {} has a peak of {}{}.",
          pair->with->name, saved(*pair), slower(*pair));
    if (const auto pair = pair_for("tier", recomputes))
      say("Why: with recomputation, only the input of each block is kept for backward. {} has a "
          "peak of {}{}.",
          pair->with->name, saved(*pair), slower(*pair));
  }

  void say_why_slower() {
    for (const Result* row : done_) {
      const double speed = all_.speed_up(*row);
      if (row == &first() || speed == 0.0 || speed >= 1.0 || !all_.differs_in_time(*row, first()))
        continue;
      std::vector<const char*> reasons;
      if (recomputes(*row) && !recomputes(first()))
        reasons.push_back("blocks are computed a second time in backward");
      if (has_16_bits(*row) && !has_16_bits(first()) && row->device == "CPU")
        reasons.push_back("16-bit products are not faster on this processor");
      say("Slower than {}: {} ({:.2f}x){}{}.", first().name, row->name, all_.speed_up(*row),
          reasons.empty() ? "" : ", because ", fmt::join(reasons, "; "));
    }
  }

  void recommend() {
    if (has_memory() && &least_memory() != &first())
      say("If memory is the limit: {}.", least_memory().name);
    if (all_.differs_in_time(fastest(), first())) say("If time is the limit: {}.", fastest().name);
    if (const Result* same = least_in_same_numerics())
      say("If the arithmetic must not change: {}, {} less memory than {}.", same->name,
          percent(1.0 - all_.memory_share(*same)), first().name);
    if (const Result* both = least_without_slowdown())
      say("If neither may suffer: {}, {} less memory at {:.2f} times the speed.", both->name,
          percent(1.0 - all_.memory_share(*both)), all_.speed_up(*both));
  }

  // Returns the row with the least memory that satisfies a condition and needs less than the first.
  template <class Condition>
  const Result* least_where(Condition condition) const {
    const Result* least = nullptr;
    for (const Result* row : done_) {
      if (!has_memory() || has_no_effect(*row)) continue;
      if (all_.memory_share(*row) >= 1.0 || !condition(*row)) continue;
      if (least == nullptr || row->peak_bytes() < least->peak_bytes() ||
          (row->peak_bytes() == least->peak_bytes() && all_.speed_up(*row) > all_.speed_up(*least)))
        least = row;
    }
    return least;
  }
  const Result* least_in_same_numerics() const {
    return least_where([&](const Result& row) { return !differs(row, first(), "numerics"); });
  }
  const Result* least_without_slowdown() const {
    return least_where([&](const Result& row) {
      constexpr double kMaxSlowdown = 0.05;
      return all_.noise && all_.speed_up(row) >= 1.0 - std::min(all_.noise->seconds, kMaxSlowdown);
    });
  }

  const Comparison& all_;
  std::vector<const Result*> done_;
  std::vector<std::string> sentences_;
};

}  // namespace

std::vector<std::string> analyse(const Comparison& comparison) {
  return Analysis(comparison).sentences();
}

}  // namespace sotto::lab
