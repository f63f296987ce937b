// Options with one field of every kind, for the tests of reading and writing.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sotto/core/config/options.h"

namespace sotto {

enum class Activation { kGelu, kRelu, kSwish };

inline constexpr std::array kActivations = {Named<Activation>{"gelu", Activation::kGelu},
                                            Named<Activation>{"relu", Activation::kRelu},
                                            Named<Activation>{"swish", Activation::kSwish}};

struct SampleModel {
  // Transformer blocks.
  int64_t layers = 12;
  // Values of a frame between the blocks.
  int64_t width = 64;
  // Attention heads; must divide the width.
  int64_t heads = 4;
  // Share of values set to zero in training.
  double dropout = 0.1;
  // Between the two products of the feed-forward part.
  Activation activation = Activation::kGelu;

  void visit(OptionVisitor& visitor) {
    visitor.value("layers", layers, "transformer blocks", {.min = 1, .max = 200});
    visitor.value("width", width, "values of a frame between the blocks", {.min = 1});
    visitor.value("heads", heads, "attention heads; must divide the width", {.min = 1});
    visitor.value("dropout", dropout, "share of values set to zero", {.min = 0, .below = 1});
    visitor.choice("activation", activation, "of the feed-forward part", kActivations);
  }

  void validate() const {
    if (width % heads == 0) return;
    throw ConfigError({.attempted = "checking the model",
                       .found = fmt::format("width {} is no multiple of heads {}", width, heads)});
  }

  friend bool operator==(const SampleModel&, const SampleModel&) = default;
};

struct SampleOptions {
  // Name of the run.
  std::string name = "first";
  // Where the run is written.
  std::filesystem::path out = "runs/first";
  // Where it computes.
  std::string device = "cpu";
  // Same numbers in every run.
  bool deterministic = false;
  // Of all random numbers.
  int64_t seed = 7;
  // Of the optimizer.
  double rate = 3e-4;
  // What the process may take on the device.
  MemorySize memory;
  // Of the pinned buffers.
  int64_t pinned_bytes = int64_t{1} << 30;
  // Time between two checkpoints.
  double save_every_s = 900;
  // Bands of the mask, in frames.
  std::vector<int64_t> bands = {10, 20};
  // Decay rates of the moments.
  std::vector<double> betas = {0.9, 0.98};
  // Files to train on.
  std::vector<std::string> train;
  // What is recomputed, by layer.
  std::vector<std::string> tiers = {"none"};
  SampleModel model;

  void visit(OptionVisitor& visitor) {
    visitor.value("name", name, "name of the run");
    visitor.value("out", out, "where the run is written");
    visitor.choice("device", device, "where it computes", {"cpu", "cuda"});
    visitor.value("deterministic", deterministic, "same numbers in every run");
    visitor.value("seed", seed, "of all random numbers");
    visitor.value("rate", rate, "of the optimizer", {.above = 0});
    visitor.value("memory", memory, "what the process may take on the device");
    visitor.bytes("pinned", pinned_bytes, "of the pinned buffers", {.max = int64_t{1} << 40});
    visitor.duration("save_every", save_every_s, "time between two checkpoints", {.min = 1});
    visitor.value("bands", bands, "bands of the mask, in frames", {.min = 0});
    visitor.value("betas", betas, "decay rates of the moments", {.min = 0, .below = 1});
    visitor.value("train", train, "files to train on");
    visitor.choice("tiers", tiers, "what is recomputed, by layer", {"none", "norms", "block"});
    visitor.group("model", model, "the network");
  }

  friend bool operator==(const SampleOptions&, const SampleOptions&) = default;
};

}  // namespace sotto
