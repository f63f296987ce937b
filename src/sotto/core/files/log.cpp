#include "sotto/core/files/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/core/files/output_file.h"

namespace sotto {

namespace {

// The log file; buffers the lines until a file is set.
class KeptLog : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void open(const std::filesystem::path& path, std::string_view title) {
    OutputFile file = OutputFile::append(path);
    const std::lock_guard lock(mutex_);
    file_.emplace(std::move(file));
    write(title);
    write(beginning_);
    beginning_.clear();
  }

  void add(std::string_view text) {
    const std::lock_guard lock(mutex_);
    write(text);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    write({line.data(), line.size()});
  }
  void flush_() override {}

 private:
  // Requires the mutex.
  void write(std::string_view text) {
    if (!file_) {
      beginning_ += text;
      return;
    }
    const std::string lost =
        num_lost_ > 0 ? fmt::format("... {} entries did not fit on the disk\n", num_lost_) : "";
    try {
      for (const std::string_view part : {std::string_view(lost), text})
        file_->write(std::as_bytes(std::span(part.data(), part.size())));
      num_lost_ = 0;
    } catch (const DataError&) {
      ++num_lost_;  // the terminal has shown it
    }
  }

  std::optional<OutputFile> file_;
  std::string beginning_;
  int64_t num_lost_ = 0;
};

// Returns the logger's second sink, if start_log() was called.
std::shared_ptr<KeptLog> kept_log() {
  const std::vector<spdlog::sink_ptr>& sinks = spdlog::default_logger()->sinks();
  return sinks.size() < 2 ? nullptr : std::dynamic_pointer_cast<KeptLog>(sinks[1]);
}

}  // namespace

void start_log(bool verbose) {
  const auto terminal = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  terminal->set_pattern("%^%l%$: %v");
  const auto kept = std::make_shared<KeptLog>();
  kept->set_pattern("%Y-%m-%d %H:%M:%S %l: %v");
  auto logger = std::make_shared<spdlog::logger>("sotto", spdlog::sinks_init_list{terminal, kept});
  logger->set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

void keep_log(const std::filesystem::path& file, std::string_view title) {
  if (const std::shared_ptr<KeptLog> kept = kept_log()) kept->open(file, title);
}

void add_to_kept_log(std::string_view text) {
  if (const std::shared_ptr<KeptLog> kept = kept_log()) kept->add(text);
}

}  // namespace sotto
