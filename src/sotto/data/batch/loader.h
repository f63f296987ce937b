// Loads whole steps, decoded ahead of their use on separate threads. The results of next() and
// their order do not depend on the number of threads.
//
//   Loader loader(source, sampler, {.num_threads = 4, .start = {.epoch = 2, .step = 17}});
//   while (training) use(loader.next());
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <variant>
#include <vector>

#include "sotto/data/batch/sampler.h"
#include "sotto/data/batch/source.h"

namespace sotto::data {

struct LoaderOptions {
  int64_t num_threads = 2;
  // Number of steps that are decoded while another is used.
  int64_t num_steps_ahead = 2;
  // Maximum bytes of decoded values at once, including the step in use. The next step is always
  // decoded.
  int64_t max_bytes = int64_t{1} << 30;
  // The first step that next() returns.
  StepPosition start = {};
};

struct LoadedStep {
  StepPosition position;
  // In the sampler's order. Empty if every utterance was skipped.
  std::vector<Example> examples;
  // Utterances whose files turned out to be broken, or too short, in the same order.
  std::vector<SkippedUtterance> skipped;
};

class Loader {
 public:
  // The source and the sampler, which is over its lengths(), must outlive the loader. Throws
  // DataError for a start that is not in the sampler's epoch.
  Loader(const Source& source, const Sampler& sampler, const LoaderOptions& options);
  // Waits only for the utterances that are currently being decoded.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Returns the next step, epoch after epoch without end. Throws the exception of the step's first
  // utterance that failed, such as DataError under the policy `error`; the next call returns the
  // step after it.
  LoadedStep next();

 private:
  using Outcome = std::variant<std::monostate, Example, SkippedUtterance, std::exception_ptr>;

  struct PendingStep {
    StepPosition position;
    // Indices in the source.
    std::vector<uint32_t> indices;
    // Total bytes of the values, computed from their sizes.
    int64_t num_bytes = 0;
    std::vector<Outcome> outcomes;  // in the order of `indices`
    size_t num_taken = 0;
    size_t num_done = 0;

    bool is_done() const { return num_done == indices.size(); }
  };

  void enqueue_steps();
  PendingStep make_step();
  PendingStep take_first_step();
  PendingStep* find_work();
  void work(const std::stop_token& stop);
  bool has_room(const PendingStep& step) const;
  Outcome load(int64_t index, int64_t epoch) const;

  const Source& source_;
  const Sampler& sampler_;
  LoaderOptions options_;
  // Position of the next step to enqueue; accessed only by next().
  StepPosition position_;
  EpochOrder order_;
  // Drawn but not enqueued yet, because there was no room.
  std::optional<PendingStep> next_;
  int64_t bytes_in_use_ = 0;

  std::mutex mutex_;
  std::condition_variable_any has_work_;
  std::condition_variable_any step_done_;
  // Guarded by the mutex. Threads keep references to steps, which stay valid when elements are
  // added or removed at the ends of a deque; a step is removed only when no thread works on it.
  std::deque<PendingStep> pending_;
  // Last, so that the threads end before the members they use are destroyed.
  std::vector<std::jthread> threads_;
};

}  // namespace sotto::data
