// Runs of `sotto train` on a tiny corpus in a folder of their own, for tests of the command as
// users meet it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/run_command.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "support/tiny_corpus.h"

namespace sotto::test {

class TrainRuns : public ::testing::Test {
 protected:
  TrainRuns() {
    write_tiny_corpus(folder_.path(), "train", 48, 1);
    write_tiny_corpus(folder_.path(), "dev", 12, 2);
    const std::string base = folder_.path().string();
    folder_.write("tiny.yaml",
                  "name: tiny\n"
                  "memory: 100MiB\n"
                  "data: {train: " +
                      base + "/train.jsonl, dev: " + base +
                      "/dev.jsonl}\n"
                      "model: {preset: tiny, layers: 2, width: 32, heads: 2, hidden: 64}\n"
                      "optimizer: {schedule: {kind: constant, rate: 0.003}}\n"
                      "effective_batch: 8\n"
                      "epochs: 3\n"
                      "checkpoint_every: 2\n"
                      "keep_checkpoints: 3\n");
  }

  std::vector<std::string> words(const std::string& out, std::vector<std::string> more) const {
    const std::string base = folder_.path().string() + "/";
    std::vector<std::string> all = {"train", "--config", base + "tiny.yaml",
                                    "--out", base + out, "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  CommandResult train(const std::string& out, const std::vector<std::string>& more = {},
                      const std::vector<std::string>& environment = {}) const {
    return run_sotto(words(out, more), environment);
  }
  std::filesystem::path run(const std::string& out) const { return folder_.path() / out; }
  int64_t num_lines(const std::string& out) const {
    const std::string record = content_of(run(out) / "metrics.jsonl");
    return std::count(record.begin(), record.end(), '\n');
  }
  std::string weights(const std::string& out, int64_t step) const {
    return content_of(run(out) / "checkpoints" / ("step-" + std::to_string(step)) /
                      "model.safetensors");
  }

  static void expect_refusal(const CommandResult& result, int exit_code,
                             const std::vector<std::string>& parts) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.out, "");
    for (const std::string& part : parts) EXPECT_PRED2(contains, result.err, part);
  }

  TempFolder folder_;
};

}  // namespace sotto::test
