// Structs into files: reading back what was written gives an equal struct.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "sotto/core/config/config.h"
#include "sotto/core/config/config_json.h"
#include "sotto/core/config/config_yaml.h"
#include "support/thrown.h"
#include "unit/core/config/sample_options.h"

namespace sotto {
namespace {

using test::contains;

template <class Options>
void expect_survives(const Options& options) {
  const std::string yaml = format_yaml(write_options(options));
  EXPECT_EQ(read_options<Options>(parse_yaml(yaml, "a.yaml")), options) << yaml;
  const std::string json = format_json(write_options(options));
  EXPECT_EQ(read_options<Options>(parse_json(json, "a.json")), options) << json;
}

TEST(WriteConfig, DefaultsSurvive) {
  expect_survives(SampleOptions{});
}

TEST(WriteConfig, StringsSurviveWhateverTheyLookLike) {
  for (const char* text : {"",
                           " ",
                           "12",
                           "1e3",
                           "0x1F",
                           "1_000",
                           "010",
                           ".5",
                           "true",
                           "Yes",
                           "no",
                           "on",
                           "n",
                           "null",
                           "~",
                           "NULL",
                           "2024-01-01",
                           "12:30",
                           "a: b",
                           "a #b",
                           "#a",
                           "- a",
                           "[a]",
                           "{a}",
                           "*a",
                           "&a",
                           "!a",
                           "%a",
                           "@a",
                           "`a`",
                           "'a'",
                           "\"a\"",
                           "it's",
                           "a\\b",
                           "line\nbreak\n",
                           "\n",
                           "tab\tbed",
                           "\r\n",
                           " lead",
                           "trail ",
                           "gr\xC3\xBC\xC3\x9F",
                           "\xF0\x9F\x98\x80",
                           "\x01\x1F\x7F",
                           "\xC2\x85 \xE2\x80\xA8 \xEF\xBB\xBF",
                           "a,b",
                           "?",
                           "-",
                           ":",
                           "a:",
                           "=",
                           "<<",
                           "8GiB",
                           "90%",
                           "5e",
                           "5d",
                           "1.2.3",
                           "/a/b.c",
                           "a/b c",
                           "---",
                           "...",
                           "runs/\\ud83d"}) {
    SampleOptions options;
    options.name = text;
    options.out = text;
    options.train = {text, "x", text};
    expect_survives(options);
  }
}

TEST(WriteConfig, NumbersSurviveExactly) {
  for (const double number : {1e-300, 4.9e-324, 0.1, 1.0 / 3.0, 3.0, 1e15, 1e16, 123456789012345.6,
                              1.7976931348623157e308, 2.2250738585072014e-308, 1e22, 5e-5}) {
    SampleOptions options;
    options.rate = number;
    options.save_every_s = std::max(1.0, number);
    expect_survives(options);
  }
  for (const int64_t number : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{0},
                               std::numeric_limits<int64_t>::max()}) {
    SampleOptions options;
    options.seed = number;
    expect_survives(options);
  }
}

TEST(WriteConfig, SizesAndDurationsSurvive) {
  for (const int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{1536}, int64_t{12'000'001}, int64_t{8} << 30}) {
    SampleOptions options;
    options.pinned_bytes = bytes;
    expect_survives(options);
  }
  for (const double seconds : {1.0, 1.1, 59.0, 60.0, 90.0, 3600.0, 86400.0, 100000.25, 1e9 / 3}) {
    SampleOptions options;
    options.save_every_s = seconds;
    expect_survives(options);
  }
  for (const char* memory : {"auto", "8GiB", "12GB", "7%", "62.5%", "100%"}) {
    SampleOptions options;
    options.memory = MemorySize::parse(memory);
    expect_survives(options);
  }
}

TEST(WriteConfig, ListsSurviveAtEveryLength) {
  for (const size_t length : {0U, 1U, 3U, 200U}) {
    SampleOptions options;
    options.bands.assign(length, 12345);
    options.betas.assign(length, 1.0 / 3.0);
    options.train.assign(length, "a: b");
    options.tiers.assign(length, "block");
    expect_survives(options);
  }
}

TEST(WriteConfig, YamlReadsWell) {
  SampleModel model;
  model.activation = Activation::kSwish;
  EXPECT_EQ(format_yaml(write_options(model)),
            "# format version of this file\n"
            "format_version: 1\n"
            "# transformer blocks (from 1 to 200)\n"
            "layers: 12\n"
            "# values of a frame between the blocks (at least 1)\n"
            "width: 64\n"
            "# attention heads; must divide the width (at least 1)\n"
            "heads: 4\n"
            "# share of values set to zero (at least 0 and below 1)\n"
            "dropout: 0.1\n"
            "# of the feed-forward part (gelu, relu, swish)\n"
            "activation: swish\n");
}

TEST(WriteConfig, YamlNeedsFewQuotes) {
  SampleOptions options;
  options.memory = MemorySize::parse("8GiB");
  options.name = "yes";
  const std::string yaml = format_yaml(write_options(options));
  for (const char* line :
       {"\nname: \"yes\"\n", "\nout: runs/first\n", "\nmemory: 8GiB\n", "\npinned: 1GiB\n",
        "\nsave_every: 15min\n", "\nbands: [10, 20]\n", "\ntrain: []\n",
        "\nmodel:\n  # transformer blocks (from 1 to 200)\n", "\n  layers: 12\n"}) {
    EXPECT_PRED2(contains, yaml, line);
  }
}

TEST(WriteConfig, LongLinesAreWrapped) {
  struct Wordy {
    std::vector<int64_t> sizes = std::vector<int64_t>(40, 1000);
    void visit(OptionVisitor& visitor) {
      visitor.value("sizes", sizes,
                    "a help line that goes on and on about what the sizes are for, where they come "
                    "from, who set them, and why nobody should change them without need");
    }
  };
  const std::string yaml = format_yaml(write_options(Wordy{}));
  std::istringstream lines(yaml);
  int comments = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    comments += line.starts_with("# ") ? 1 : 0;
  }
  EXPECT_EQ(comments, 3);
  EXPECT_PRED2(contains, yaml, "\nsizes:\n  - 1000\n");
}

TEST(WriteConfig, JsonKeepsOrderAndTypes) {
  const auto json = nlohmann::ordered_json::parse(format_json(write_options(SampleOptions{})));
  EXPECT_EQ(json.begin().key(), "format_version");
  EXPECT_EQ(std::next(json.begin()).key(), "name");
  EXPECT_TRUE(json["deterministic"].is_boolean());
  EXPECT_TRUE(json["seed"].is_number_integer());
  EXPECT_EQ(json["rate"], 3e-4);
  EXPECT_EQ(json["pinned"], "1GiB");
  EXPECT_EQ(json["model"]["activation"], "gelu");
  EXPECT_EQ(json["betas"], nlohmann::json::parse("[0.9, 0.98]"));
}

TEST(WriteConfig, RefusesUnwritableValues) {
  SampleOptions options;
  options.out = "runs/\xFF";
  EXPECT_THROW(write_options(options), ConfigError);
  options = {};
  options.rate = std::numeric_limits<double>::infinity();
  EXPECT_THROW(write_options(options), InternalError);
}

TEST(WriteConfig, CommentsCanBeChangedBeforeWriting) {
  ConfigNode root = write_options(SampleModel{});
  root.find("layers")->comment = "the reason";
  EXPECT_PRED2(contains, format_yaml(root), "# the reason\nlayers: 12\n");
}

}  // namespace
}  // namespace sotto
