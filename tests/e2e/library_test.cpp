// sotto as a library: <sotto/sotto.h> from this program, and from one that finds it installed.
#include <gtest/gtest.h>
#include <sotto/sotto.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "sotto/core/files/run_record.h"
#include "sotto/core/units.h"
#include "support/thrown.h"
#include "support/train_runs.h"

namespace sotto::test {
namespace {

namespace fs = std::filesystem;

class Library : public TrainRuns {
 protected:
  Config config(std::vector<std::string> settings = {}) const {
    return {.file = folder_.path() / "tiny.yaml", .settings = std::move(settings)};
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // What the example is called with.
  std::vector<std::string> example(const std::string& program, const std::string& out) const {
    return {program, path("train.jsonl"), path("dev.jsonl"), path(out)};
  }
};

void expect_example(const CommandResult& result) {
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"plan: 48 utterances, 12 steps", "of 52428800 bytes on CPU",
                           "step 6: ", "step 12: ", "equal to the byte", "best: WER "})
    EXPECT_PRED2(contains, result.out, part);
}

// Epoch by epoch, in one call, and by the command: bit-identical runs.
TEST_F(Library, TrainsEpochByEpochLikeTheCommand) {
  ASSERT_EQ(train("command").exit_code, 0);
  int64_t num_steps = 0;
  std::vector<int64_t> ends;
  {
    Training training(config(), run("epochs"), {.stepped = [&](const StepProgress& step) {
                        EXPECT_EQ(step.step, ++num_steps);
                        EXPECT_EQ(step.total_steps, 18);
                        EXPECT_GT(step.peak_bytes, 0);
                      }});
    EXPECT_EQ(training.memory(), std::nullopt);
    while (!training.is_finished() && ends.size() < 5) {
      const TrainingResult epoch = training.train_epoch();
      ends.push_back(epoch.step);
      EXPECT_GT(epoch.audio_seconds, 0.0);
      EXPECT_TRUE(epoch.scores && epoch.scores->wer && !epoch.scores->perplexity);
    }
    EXPECT_TRUE(training.memory()->is_equal);
  }
  EXPECT_EQ(ends, (std::vector<int64_t>{6, 12, 18}));
  EXPECT_EQ(num_steps, 18);
  EXPECT_TRUE(weights("epochs", 18) == weights("command", 18));
  Training whole(config(), run("whole"));
  whole.train_epoch();
  EXPECT_FALSE(whole.is_finished());
  EXPECT_EQ(whole.train().step, 18);
  EXPECT_TRUE(whole.is_finished());
  EXPECT_TRUE(weights("whole", 18) == weights("command", 18));
}

// The lines of a run, without what a clock says.
std::vector<nlohmann::json> records_of(const fs::path& file) {
  std::vector<nlohmann::json> records = read_run_record(file).records;
  for (nlohmann::json& record : records) record.erase("seconds");
  return records;
}

// What a run writes, by its path in the folder.
std::map<fs::path, std::string> files_of(const fs::path& folder) {
  std::map<fs::path, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    // What the command prints, times of records, and TensorBoard's times.
    const bool has_clock =
        name == "log.txt" || name == "metrics.jsonl" || name.find("tfevents") != std::string::npos;
    if (entry.is_regular_file() && !has_clock)
      files[fs::relative(entry.path(), folder)] = content_of(entry.path());
  }
  return files;
}

// On tight budgets, where the plan matters most: plan, configuration, weights, optimizer and state
// are identical, byte for byte.
TEST_F(Library, WritesTheSameFilesAsTheCommand) {
  // What is tight depends on the processor's products and its cores.
  const CommandResult refused = train("refused", {"--memory", "100KiB"});
  std::smatch needs;
  ASSERT_TRUE(std::regex_search(refused.err, needs, std::regex("needs? ([0-9.]+ [KM]iB), as")))
      << refused.err;
  const int64_t least = MemorySize::parse(needs[1].str()).bytes;
  const auto memory = [&](int64_t percent) {
    return "memory=" + std::to_string(least * percent / 100 / 1024) + "KiB";
  };
  int number = 0;
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{memory(115)},
        {"memory=20MiB", "numerics=bf16-lean"},
        {memory(250), "tier=block", "effective_batch=16"},
        {"memory=50MiB"}}) {
    SCOPED_TRACE(settings.front());
    // Of the same name, which the configuration holds.
    const std::string by_command = "command/" + std::to_string(++number);
    const std::string by_library = "library/" + std::to_string(number);
    std::vector<std::string> words = {"train", "--config", path("tiny.yaml"), "--out",
                                      run(by_command).string()};
    for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
    const CommandResult command = run_sotto(words);
    ASSERT_EQ(command.exit_code, 0) << command.err;
    Training(config(settings), run(by_library)).train();
    const std::map<fs::path, std::string> expected = files_of(run(by_command));
    const std::map<fs::path, std::string> found = files_of(run(by_library));
    EXPECT_TRUE(expected.contains("plan.yaml"));
    EXPECT_TRUE(expected.contains("checkpoints/step-18/optimizer.safetensors") || number == 3);
    for (const auto& [file, content] : expected) {
      ASSERT_TRUE(found.contains(file)) << file;
      EXPECT_TRUE(found.at(file) == content) << file;
    }
    EXPECT_EQ(found.size(), expected.size());
    EXPECT_EQ(records_of(run(by_library) / "metrics.jsonl"),
              records_of(run(by_command) / "metrics.jsonl"));
  }
}

TEST_F(Library, PlansAndReportsWhatTheRunWrites) {
  Training training(config({"memory=700KiB"}), run("run"));
  const Plan& plan = training.plan();
  EXPECT_EQ(plan.device, "CPU");
  EXPECT_EQ(plan.budget_bytes, 700 << 10);
  EXPECT_LE(plan.needed_bytes, plan.budget_bytes);
  EXPECT_TRUE(plan.max_frames.has_value());
  EXPECT_EQ(plan.num_utterances, 48);
  EXPECT_EQ(plan.steps_per_epoch, 6);
  EXPECT_EQ(plan.total_steps, 18);
  EXPECT_PRED2(contains, plan.needed_in, "ward");
  training.train_epoch();
  const MemoryReport& memory = training.memory().value();
  EXPECT_LE(memory.largest_peak_bytes, plan.budget_bytes);
  EXPECT_GE(memory.largest_peak_bytes, memory.measured_peak_bytes);
  const auto file = nlohmann::json::parse(content_of(run("run") / "memory.json"));
  EXPECT_EQ(memory.planned_peak_bytes, file["planned"]["peak_bytes"]);
  EXPECT_EQ(memory.measured_peak_bytes, file["measured"]["peak_bytes"]);
  int64_t sum = 0;
  for (const MemoryReport::Part& part : memory.parts) {
    sum += part.measured_bytes;
    EXPECT_EQ(part.measured_bytes, file["measured"]["bytes_at_peak"][part.name]) << part.name;
  }
  EXPECT_EQ(sum, memory.measured_peak_bytes);
}

TEST_F(Library, ResumesAndEvaluates) {
  Training(config(), run("whole")).train();
  {
    // Asked after the second step: the call saves and ends.
    int64_t num_steps = 0;
    Training stopped(config(), run("parts"),
                     {.stepped = [&](const StepProgress&) { ++num_steps; },
                      .should_stop = [&] { return num_steps == 2; }});
    EXPECT_EQ(stopped.train().step, 2);
    EXPECT_FALSE(stopped.is_finished());
  }
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { Training(config(), run("parts")); }),
               "checkpoints of an earlier run");
  Training resumed(config(), run("parts"), {.resumes = true});
  EXPECT_EQ(resumed.plan().first_step, 3);
  EXPECT_EQ(resumed.train().step, 18);
  EXPECT_TRUE(weights("parts", 18) == weights("whole", 18));

  Recogniser recogniser(run("whole"), {.memory = "20MiB"});
  const Scores scores = recogniser.evaluate(path("dev.jsonl"));
  const CommandResult eval = run_sotto(
      {"eval", "--checkpoint", run("whole").string(), "--data", path("dev.jsonl"), "--json"});
  EXPECT_EQ(scores.wer, nlohmann::json::parse(eval.out)["wer"]["rate"].get<double>());
  EXPECT_EQ(scores.num_utterances, 12);
  EXPECT_LE(recogniser.peak_bytes(), 20 << 20);
}

// A flipped byte is found and named, and the previous checkpoint is used, as the command does.
TEST_F(Library, ResumesOnlyFromIntactCheckpoints) {
  Training(config(), run("whole")).train();
  Training(config({"max_steps=6"}), run("run")).train();
  const fs::path damaged = run("run") / "checkpoints/step-6/model.safetensors";
  std::string bytes = content_of(damaged);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(damaged, std::ios::binary) << bytes;
  std::vector<std::string> notes;
  {
    Training resumed(
        config({"max_steps=18"}), run("run"),
        {.resumes = true, .warned = [&](const std::string& text) { notes.push_back(text); }});
    EXPECT_EQ(resumed.plan().first_step, 5);
    EXPECT_PRED2(contains, notes.at(0), "step-6 cannot be used");
    // While it lives nobody else takes the folder.
    EXPECT_PRED2(contains,
                 message_of<DataError>([&] { Training(config(), run("run"), {.resumes = true}); }),
                 "a run is in progress there");
    EXPECT_EQ(train("run", {"--resume"}).exit_code, 2);
    resumed.train();
  }
  EXPECT_TRUE(weights("run", 18) == weights("whole", 18));
  EXPECT_PRED2(contains, message_of<DataError>([&] {
                 Training(
                     config({"resume_from_checkpoint=" + path("run/checkpoints/step-6.aside")}),
                     run("other"));
               }),
               "model.safetensors is damaged");
}

TEST_F(Library, ThrowsTheSameErrorsAsTheCommand) {
  EXPECT_PRED2(contains, to_yaml(config({"epochs=7"})), "epochs: 7\n");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { to_yaml(config({"epoch=7"})); }),
               "Did you mean 'epochs'?");
  EXPECT_PRED2(contains,
               message_of<ConfigError>([&] { Training(config({"memory=300KiB"}), run("run")); }),
               "would do");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { Training({}, run("run")); }), "data.train");
  EXPECT_PRED2(contains, message_of<DataError>([&] { Recogniser(run("nowhere")); }), "nowhere");
}

TEST_F(Library, ExampleRuns) {
  expect_example(run_command(example(SOTTO_EXAMPLE, "out")));
}

// Installed to a separate folder and found there by a project outside this tree. One small file is
// compiled.
TEST_F(Library, IsFoundByAnotherProject) {
  if (!fs::exists(SOTTO_CMAKE) || !fs::exists(SOTTO_COMPILER))
    GTEST_SKIP() << "no cmake or compiler here: expected " << SOTTO_CMAKE << ", " << SOTTO_COMPILER;
  const auto cmake = [&](std::vector<std::string> words) {
    words.insert(words.begin(), SOTTO_CMAKE);
    const CommandResult result = run_command(words);
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  };
  cmake({"--install", SOTTO_BUILD, "--component", "development", "--prefix", path("installed")});
  fs::copy(SOTTO_EXAMPLES, folder_.path() / "project");
  cmake({"-G", SOTTO_GENERATOR, "-S", path("project"), "-B", path("build"),
         "-DCMAKE_PREFIX_PATH=" + path("installed"),
         std::string("-DCMAKE_CXX_COMPILER=") + SOTTO_COMPILER});
  cmake({"--build", path("build")});
  expect_example(run_command(example(path("build/train_digits"), "outside")));

  const CommandResult elsewhere =
      run_command({SOTTO_CMAKE, "-G", SOTTO_GENERATOR, "-S", path("project"), "-B", path("build2"),
                   "-DCMAKE_PREFIX_PATH=" + path("installed"), "-DSOTTO_TORCH=" + path("nowhere"),
                   std::string("-DCMAKE_CXX_COMPILER=") + SOTTO_COMPILER});
  EXPECT_NE(elsewhere.exit_code, 0);
  EXPECT_PRED2(contains, elsewhere.err, "LibTorch was not found at");
}

}  // namespace
}  // namespace sotto::test
