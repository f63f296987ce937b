#include "cli/commands/json_events.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <utility>

#include "sotto/core/build_info.h"
#include "sotto/core/error.h"

namespace sotto::cli {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kFormatVersionOfEvents = 1;

// The folder of a run does not exist when its program starts.
RunRecord open_events(const fs::path& file) {
  if (file.has_parent_path()) fs::create_directories(file.parent_path());
  return RunRecord::open(file);
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

JsonEvents::JsonEvents(const fs::path& file) : file_(open_events(file)) {
  const BuildInfo build = build_info();
  add("started", {{"format_version", kFormatVersionOfEvents},
                  {"version", build.version},
                  {"commit", build.commit},
                  {"pid", getpid()},
                  {"host", host_name()}});
}

void JsonEvents::follow(plan::TrainingEvents& events) {
  events.known = [this](const nlohmann::ordered_json& facts) {
    add("plan", {{"facts", nlohmann::json(facts)}});
  };
  events.run.recorded = [this](const nlohmann::json& line) { add_line_of_metrics(line); };
  events.run.saved = [this, show = events.run.saved](const fs::path& path) {
    add("checkpoint", {{"step", step_}, {"path", fs::absolute(path).string()}});
    train::notify(show, path);
  };
  events.run.warned = [this, show = events.run.warned](const std::string& text) {
    add("warning", {{"text", text}});
    train::notify(show, text);
  };
}

void JsonEvents::finish(const nlohmann::ordered_json& summary) {
  add("finished", nlohmann::json(summary));
}

void JsonEvents::fail(const Failure& failure) {
  add("failed", nlohmann::json(failure_json(failure)));
}

// The events of steps, evaluations, stages and so on are the lines of metrics.jsonl.
void JsonEvents::add_line_of_metrics(const nlohmann::json& line) {
  nlohmann::json content = line;
  std::string kind = content.at("kind");
  content.erase("kind");
  step_ = content.value("step", step_);
  add(kind == "out_of_memory" ? "recovery" : kind.c_str(), std::move(content));
}

void JsonEvents::add(const char* event, nlohmann::json content) {
  content["event"] = event;
  content["time"] = seconds_since_1970();
  try {
    file_.append(content);
    is_failing_ = false;
  } catch (const DataError& error) {
    if (!std::exchange(is_failing_, true))
      spdlog::warn("the run continues without events: {}", error.what());
  }
}

}  // namespace sotto::cli
