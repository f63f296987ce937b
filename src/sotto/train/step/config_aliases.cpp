#include "sotto/train/step/config_aliases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/train/step/foreign_groups.h"

namespace sotto::train {

namespace {

// A key whose value is moved unchanged.
struct Renamed {
  std::string_view key;
  std::string_view ours;
};
constexpr std::array kRenamed = {Renamed{"per_device_train_batch_size", "micro_batch"},
                                 Renamed{"learning_rate", "optimizer.schedule.rate"},
                                 Renamed{"warmup_steps", "optimizer.schedule.warmup_steps"},
                                 Renamed{"warmup_ratio", "optimizer.schedule.warmup_share"},
                                 Renamed{"weight_decay", "optimizer.weight_decay"},
                                 Renamed{"max_grad_norm", "optimizer.clip_norm"},
                                 Renamed{"eval_steps", "evaluate_every"},
                                 Renamed{"save_steps", "checkpoint_every"},
                                 Renamed{"save_total_limit", "keep_checkpoints"},
                                 Renamed{"max_samples", "data.max_samples"},
                                 Renamed{"batch_size", "micro_batch"},
                                 Renamed{"per_device_eval_batch_size", "evaluation_micro_batch"},
                                 Renamed{"adam_beta1", "optimizer.beta1"},
                                 Renamed{"adam_beta2", "optimizer.beta2"},
                                 Renamed{"adam_epsilon", "optimizer.epsilon"},
                                 Renamed{"d_model", "model.width"},
                                 Renamed{"encoder_layers", "model.layers"},
                                 Renamed{"decoder_layers", "model.decoder_layers"}};

constexpr std::array kRenamedInStage = {Renamed{"max_samples", "samples"},
                                        Renamed{"num_train_epochs", "epochs"},
                                        Renamed{"max_steps", "steps"},
                                        Renamed{"learning_rate", "schedule.rate"},
                                        Renamed{"warmup_steps", "schedule.warmup_steps"},
                                        Renamed{"warmup_ratio", "schedule.warmup_share"}};

// Fractions of free memory: a smaller budget should be given in bytes, a larger one leaves nothing
// for others.
constexpr double kLeastMargin = 0.70, kMostMargin = 0.95;

// The configuration tree, and operations that move keys in it.
class Aliases {
 public:
  explicit Aliases(ConfigNode& root) : root_(root) {}

  void resolve_all() {
    take_optimizer();
    take_optim();
    for (const Renamed& renamed : kRenamed) {
      std::optional<ConfigNode> node = take(renamed.key);
      if (!node) continue;
      if (renamed.ours == "micro_batch") batch_ = *node;
      put(renamed.ours, std::move(*node));
    }
    take_schedule();
    take_batch();
    take_lengths();
    take_intervals();
    take_reduction();
    take_numerics();
    take_memory();
  }

  // The keys of a stage; `root` is one of the list.
  void resolve_stage() {
    for (const Renamed& renamed : kRenamedInStage) {
      if (std::optional<ConfigNode> node = take(renamed.key)) put(renamed.ours, std::move(*node));
    }
  }

  AliasedRequest take_request() {
    AliasedRequest request;
    const std::optional<ConfigNode> node = take("resume_from_checkpoint");
    if (!node) return request;
    if (node->is_scalar() && (node->text == "true" || node->text == "false")) {
      request.resumes = node->text == "true";
    } else {
      request.resume_from = scalar(*node, "true, false or the folder of a checkpoint");
    }
    return request;
  }

 private:
  // Removes and returns a key; none where it is absent.
  std::optional<ConfigNode> take(std::string_view key) {
    if (root_.kind != ConfigNode::Kind::kMap) return std::nullopt;
    const auto found = std::ranges::find(root_.children, key, &ConfigNode::key);
    if (found == root_.children.end()) return std::nullopt;
    ConfigNode node = std::move(*found);
    root_.children.erase(found);
    return node;
  }

  static const std::string& scalar(const ConfigNode& node, const std::string& expected) {
    if (!node.is_scalar())
      refuse(node.location, {.found = fmt::format("{} is {}", node.key, describe_value(node)),
                             .expected = expected});
    return node.text;
  }

  static bool boolean(const ConfigNode& node) {
    const std::string& text = scalar(node, "true or false");
    if (text != "true" && text != "false")
      refuse(node.location,
             {.found = fmt::format("{} is '{}'", node.key, text), .expected = "true or false"});
    return text == "true";
  }

  // Parses a whole number, which other tools also write as 3.0.
  static int64_t whole(const ConfigNode& node, int64_t least) {
    const double value = number(node);
    const bool is_whole = std::abs(value) < 1e15 && std::floor(value) == value;
    if (!is_whole || value < static_cast<double>(least))
      refuse(node.location, {.found = fmt::format("{} is '{}'", node.key, node.text),
                             .expected = fmt::format("a whole number of at least {}", least)});
    return static_cast<int64_t>(value);
  }

  // Returns NaN where it is not a number.
  static double number(const ConfigNode& node) {
    const std::string& text = scalar(node, "a number");
    double value = 0.0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    return is_number ? value : std::numeric_limits<double>::quiet_NaN();
  }

  // Stores a node under our key, and creates its groups where they are missing.
  void put(std::string_view ours, ConfigNode node) {
    ConfigNode* map = &root_;
    std::string_view path = ours;
    for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
      const std::string_view group = path.substr(0, dot);
      if (map->find(group) == nullptr) {
        add_entry(*map, {.kind = ConfigNode::Kind::kMap,
                         .key = std::string(group),
                         .key_location = node.key_location,
                         .location = node.location});
      }
      map = map->find(group);
      if (map->kind != ConfigNode::Kind::kMap) {
        refuse(map->location,
               {.found = fmt::format("{} is {}, beside {}, which is {} in that group", group,
                                     describe_value(*map), node.key, ours),
                .expected = fmt::format("{} as a group of settings", group)});
      }
      path.remove_prefix(dot + 1);
    }
    if (map->find(path) != nullptr) {
      refuse(node.key_location, {.found = fmt::format("{} and {}", node.key, ours),
                                 .expected = "one of them: they mean the same"});
    }
    node.key = path;
    add_entry(*map, std::move(node));
  }

  void put_text(std::string_view ours, const ConfigNode& from, const std::string& text) {
    ConfigNode node = from;
    node.kind = ConfigNode::Kind::kPlain;
    node.text = text;
    node.children.clear();
    put(ours, std::move(node));
  }

  // `optimizer: NAME`; before the keys that belong to its group.
  void take_optimizer() {
    if (const ConfigNode* node = root_.find("optimizer"); node == nullptr || !node->is_scalar())
      return;
    const ConfigNode optimizer = *take("optimizer");
    put_text("precision.moments", optimizer,
             chosen(optimizer, {{"adamw", "fp32"}, {"adamw_8bit", "8bit"}}));
  }

  // The names of Hugging Face.
  void take_optim() {
    const std::optional<ConfigNode> optim = take("optim");
    if (!optim) return;
    put_text("precision.moments", *optim,
             chosen(*optim, {{"adamw", "fp32"},
                             {"adamw_hf", "fp32"},
                             {"adamw_torch", "fp32"},
                             {"adamw_torch_fused", "fp32"},
                             {"adamw_8bit", "8bit"},
                             {"adamw_bnb_8bit", "8bit"}}));
  }

  // `constant` of Hugging Face has no warm-up, ours may have one.
  void take_schedule() {
    const std::optional<ConfigNode> node = take("lr_scheduler_type");
    if (!node) return;
    if (node->is_scalar() && node->text == "constant") check_no_warmup(*node);
    put_text("optimizer.schedule.kind", *node,
             chosen(*node, {{"constant", "constant"},
                            {"constant_with_warmup", "constant"},
                            {"linear", "linear"},
                            {"cosine", "cosine"},
                            {"inverse_sqrt", "inverse_sqrt"}}));
  }

  void check_no_warmup(const ConfigNode& scheduler) const {
    const ConfigNode* node = &root_;
    for (const char* key : {"optimizer", "schedule"})
      if (node != nullptr) node = node->find(key);
    if (node == nullptr) return;
    for (const char* key : {"warmup_steps", "warmup_share"}) {
      const ConfigNode* warmup = node->find(key);
      if (warmup == nullptr || (warmup->is_scalar() && number(*warmup) == 0.0)) continue;
      refuse(scheduler.location,
             {.found =
                  fmt::format("{}: constant with a warm-up, which it does not have", scheduler.key),
              .expected = "constant_with_warmup, or no warm-up"});
    }
  }

  // Evaluations and checkpoints by epoch, or by a number of steps.
  void take_intervals() {
    struct Interval {
      const char* strategy;
      const char* ours;
      const char* steps;
    };
    for (const Interval& interval :
         {Interval{"evaluation_strategy", "evaluate_every", "eval_steps"},
          Interval{"eval_strategy", "evaluate_every", "eval_steps"},
          Interval{"save_strategy", "checkpoint_every", "save_steps"}}) {
      const std::optional<ConfigNode> node = take(interval.strategy);
      if (!node) continue;
      const std::string by = chosen(*node, {{"steps", "steps"}, {"epoch", "epoch"}});
      const ConfigNode* every = root_.find(interval.ours);
      const bool has_steps = every != nullptr && every->text != "0";
      if (has_steps == (by == "steps")) continue;
      refuse(node->location,
             {.found = fmt::format("{}: {} {} {}", interval.strategy, by,
                                   has_steps ? "with" : "without", interval.steps),
              .expected = fmt::format("steps with {}, or epoch without", interval.steps)});
    }
  }

  // effective batch = micro_batch x accumulation_steps
  void take_batch() {
    std::optional<ConfigNode> steps = take("accumulation_steps");
    if (std::optional<ConfigNode> theirs = take("gradient_accumulation_steps")) {
      if (steps) {
        refuse(theirs->key_location, {.found = "gradient_accumulation_steps and accumulation_steps",
                                      .expected = "one of them: they mean the same"});
      }
      steps = std::move(theirs);
    }
    if (!steps) {
      // Without accumulation the batch of other tools is that of an update.
      if (batch_ && root_.find("effective_batch") == nullptr)
        put_text("effective_batch", *batch_, fmt::format("{}", whole(*batch_, 1)));
      return;
    }
    const ConfigNode* micro_batch = root_.find("micro_batch");
    if (micro_batch == nullptr) {
      refuse(steps->key_location, {.found = fmt::format("{} without micro_batch", steps->key),
                                   .expected = "the utterances per micro-batch: micro_batch, or "
                                               "per_device_train_batch_size"});
    }
    int64_t product = 0;
    if (__builtin_mul_overflow(whole(*steps, 1), whole(*micro_batch, 1), &product)) {
      refuse(steps->key_location, {.found = fmt::format("{} times micro_batch: {}, more utterances "
                                                        "than can be counted",
                                                        steps->text, micro_batch->text),
                                   .expected = "smaller numbers"});
    }
    put_text("effective_batch", *steps, fmt::format("{}", product));
  }

  void take_lengths() {
    if (const std::optional<ConfigNode> node = take("num_train_epochs"))
      put_text("epochs", *node, fmt::format("{}", whole(*node, 1)));
    if (ConfigNode* node = root_.find("max_steps"); node != nullptr && node->text == "-1")
      node->text = "0";
    // In torch 0 means loading in the main thread; our loader always has a thread.
    if (const std::optional<ConfigNode> node = take("dataloader_num_workers"))
      put_text("data.loader_threads", *node,
               fmt::format("{}", std::max<int64_t>(1, whole(*node, 0))));
  }

  // The values of NeMo.
  void take_reduction() {
    ConfigNode* node = root_.find("reduction");
    if (node == nullptr || !node->is_scalar()) return;
    for (const auto& [theirs, ours] :
         {std::pair("mean_volume", "tokens"), {"mean_batch", "utterances"}, {"mean", "ctc_mean"}})
      if (node->text == theirs) node->text = ours;
  }

  void take_numerics() {
    for (const auto& [key, numerics] :
         {std::pair("bf16", "bf16-exact"), std::pair("fp16", "fp16")}) {
      const std::optional<ConfigNode> node = take(key);
      if (node && boolean(*node)) put_text("numerics", *node, numerics);
    }
    if (const std::optional<ConfigNode> node = take("mixed_precision"))
      put_text("numerics", *node,
               chosen(*node, {{"no", "fp32"},
                              {"fp16", "fp16"},
                              {"bf16", "bf16-exact"},
                              // PyTorch's autocast has fp16 where no type is named.
                              {"true", "fp16"},
                              {"false", "fp32"}}));
    if (const std::optional<ConfigNode> node = take("gradient_checkpointing"))
      put_text("tier", *node, boolean(*node) ? "block" : "none");
  }

  static std::string chosen(
      const ConfigNode& node,
      std::initializer_list<std::pair<std::string_view, const char*>> values) {
    std::vector<std::string_view> names;
    for (const auto& [theirs, ours] : values) {
      if (node.is_scalar() && node.text == theirs) return ours;
      names.push_back(theirs);
    }
    refuse(node.location, {.found = fmt::format("{} is {}", node.key, describe_value(node)),
                           .expected = fmt::format("one of {}", fmt::join(names, ", "))});
  }

  void take_memory() {
    if (const std::optional<ConfigNode> node = take("max_memory_gb"))
      put_text("memory", *node, scalar(*node, "a number of GB") + "GB");
    const std::optional<ConfigNode> margin = take("safety_margin");
    if (!margin) return;
    const double share = number(*margin);
    if (!(share >= kLeastMargin && share <= kMostMargin))
      refuse(margin->location,
             {.found = fmt::format("safety_margin is {}", margin->text),
              .expected = fmt::format("{} to {} of the free memory", kLeastMargin, kMostMargin)});
    put_text("memory", *margin, fmt::format("{:g}%", 100.0 * share));
  }

  ConfigNode& root_;
  // The utterances per batch under the key of another tool; none where it is absent.
  std::optional<ConfigNode> batch_ = std::nullopt;
};

}  // namespace

AliasedRequest resolve_aliases(ConfigNode& root) {
  GroupedRequest grouped = open_groups(root);
  Aliases aliases(root);
  aliases.resolve_all();
  if (ConfigNode* stages = root.find("stages"); stages != nullptr)
    for (ConfigNode& stage : stages->children) Aliases(stage).resolve_stage();
  AliasedRequest request = aliases.take_request();
  request.model = std::move(grouped.model);
  request.folder = std::move(grouped.folder);
  return request;
}

}  // namespace sotto::train
