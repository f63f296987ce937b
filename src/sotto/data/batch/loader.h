// Whole steps, decoded ahead of their use on threads of their own. What next() returns, and in
// which order, does not depend on the number of threads.
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
  // Steps that are decoded while another is used.
  int64_t num_steps_ahead = 2;
  // Bytes of decoded values that may be there at once, the step in use among them. The next step is
  // decoded in any case.
  int64_t max_bytes = int64_t{1} << 30;
  // The first step that next() returns.
  StepPosition start = {};
};

struct LoadedStep {
  StepPosition position;
  // In the sampler's order. Empty where every utterance was skipped.
  std::vector<Example> examples;
  // Those whose files were found to be broken, or too short, in the same order.
  std::vector<SkippedUtterance> skipped;
};

class Loader {
 public:
  // The source and the sampler, which is over its lengths(), must outlive the loader. Throws
  // DataError for a start that the sampler's epoch does not have.
  Loader(const Source& source, const Sampler& sampler, const LoaderOptions& options);
  // Waits for the utterances that are being decoded, and no further.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next step, epoch after epoch without end. Throws at a step what its first utterance that
  // failed threw, such as DataError under the policy `error`; the call behind it returns the step
  // behind it.
  LoadedStep next();

 private:
  using Outcome = std::variant<std::monostate, Example, SkippedUtterance, std::exception_ptr>;

  struct PendingStep {
    StepPosition position;
    // In the source.
    std::vector<uint32_t> places;
    // Of all values, as their sizes say.
    int64_t num_bytes = 0;
    std::vector<Outcome> outcomes;  // in the order of the places
    size_t num_taken = 0;
    size_t num_done = 0;

    bool is_done() const { return num_done == places.size(); }
  };

  void enqueue_steps();
  PendingStep make_step();
  PendingStep take_first_step();
  PendingStep* find_work();
  void work(const std::stop_token& stop);
  bool has_room(const PendingStep& step) const;
  Outcome load(int64_t place, int64_t epoch) const;

  const Source& source_;
  const Sampler& sampler_;
  LoaderOptions options_;
  // Of the next step to enqueue; only next() touches them.
  StepPosition position_;
  EpochOrder order_;
  // Drawn and not enqueued yet: there was no room.
  std::optional<PendingStep> next_;
  int64_t bytes_in_use_ = 0;

  std::mutex mutex_;
  std::condition_variable_any has_work_;
  std::condition_variable_any step_done_;
  // Under the mutex. Threads keep references to steps, which adding and taking at the ends of a
  // deque leaves valid; a step is taken only when no thread works on it.
  std::deque<PendingStep> pending_;
  // Last: whatever happens, threads end before what they use.
  std::vector<std::jthread> threads_;
};

}  // namespace sotto::data
