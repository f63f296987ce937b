#include "cli/commands/setting_hint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sotto/core/config/config.h"
#include "sotto/train/step/run_config.h"

namespace sotto::cli {

namespace {

struct KnownElsewhere {
  std::string_view option;
  std::string_view key;
};

constexpr std::array kKnownElsewhere = {
    KnownElsewhere{"lr", "optimizer.schedule.rate"},
    KnownElsewhere{"learning_rate", "optimizer.schedule.rate"},
    KnownElsewhere{"batch", "effective_batch"},
    KnownElsewhere{"batch_size", "effective_batch"},
    KnownElsewhere{"train_batch_size", "effective_batch"},
    KnownElsewhere{"per_device_train_batch_size", "micro_batch"},
    KnownElsewhere{"per_device_eval_batch_size", "evaluation_micro_batch"},
    KnownElsewhere{"eval_batch_size", "evaluation_micro_batch"},
    KnownElsewhere{"epoch", "epochs"},
    KnownElsewhere{"num_epochs", "epochs"},
    KnownElsewhere{"max_epochs", "epochs"},
    KnownElsewhere{"num_train_epochs", "epochs"},
    KnownElsewhere{"warmup", "optimizer.schedule.warmup_steps"},
    KnownElsewhere{"workers", "data.loader_threads"},
    KnownElsewhere{"num_workers", "data.loader_threads"},
    KnownElsewhere{"dataloader_num_workers", "data.loader_threads"},
    KnownElsewhere{"save_steps", "checkpoint_every"},
    KnownElsewhere{"eval_steps", "evaluate_every"},
    KnownElsewhere{"precision", "numerics"},
    KnownElsewhere{"vocab", "data.tokenizer"},
};

}  // namespace

std::optional<std::string> setting_of(std::string_view option) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  std::string name(option);
  std::ranges::replace(name, '-', '_');
  const auto* known = std::ranges::find(kKnownElsewhere, name, &KnownElsewhere::option);
  if (known != kKnownElsewhere.end()) return std::string(known->key);
  std::vector<std::string> found;
  for (const OptionInfo& info : list_options(train::RunConfig{})) {
    if (info.key == name) return info.key;
    if (info.key.ends_with("." + name)) found.push_back(info.key);
  }
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

std::string setting_hint(const std::vector<std::string>& words) {
  std::string typed = "Type:";
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) return "";
    const size_t equals = words[i].find('=');
    const std::optional<std::string> key = setting_of(words[i].substr(0, equals));
    if (!key) return "";
    std::string value = "VALUE";
    if (equals != std::string::npos) {
      value = words[i].substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      value = words[++i];
    }
    typed += fmt::format(" --set {}={}", *key, value);
  }
  return typed;
}

}  // namespace sotto::cli
