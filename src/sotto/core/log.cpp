#include "sotto/core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace sotto {

void start_log(bool verbose) {
  auto logger = std::make_shared<spdlog::logger>(
      "sotto", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%^%l%$: %v");
  logger->set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace sotto
