#include "sotto/data/batch/loader.h"

#include <algorithm>
#include <utility>

namespace sotto::data {

Loader::Loader(const Source& source, const Sampler& sampler, const LoaderOptions& options)
    : source_(source),
      sampler_(sampler),
      options_(options),
      position_(options.start),
      order_(sampler.epoch(options.start.epoch)) {
  SOTTO_ASSERT(options.num_threads >= 1 && options.num_steps_ahead >= 1, "{} threads, {} steps",
               options.num_threads, options.num_steps_ahead);
  SOTTO_ASSERT(sampler.num_utterances() == source.num_items(), "a sampler over {} items for {}",
               sampler.num_utterances(), source.num_items());
  // The position after the last step of an epoch is the first step of the next.
  if (position_.step < 0 || position_.step > order_.num_steps()) {
    throw DataError({.attempted = fmt::format("continuing with {} at epoch {}, step {}",
                                              source.name(), position_.epoch, position_.step),
                     .found = fmt::format("{} steps in the epoch", order_.num_steps()),
                     .expected = "a step of this epoch",
                     .hint = "The data, its limits or the effective batch have changed."});
  }
  enqueue_steps();
  for (int64_t i = 0; i < options.num_threads; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
}

Loader::~Loader() {
  // All at once: otherwise each would be stopped only after the previous one has ended.
  for (std::jthread& thread : threads_) thread.request_stop();
}

Loader::PendingStep Loader::make_step() {
  if (position_.step == order_.num_steps()) {
    order_ = sampler_.epoch(position_.epoch + 1);  // first, because it may run out of memory
    position_ = {.epoch = position_.epoch + 1, .step = 0};
  }
  PendingStep step;
  step.position = position_;
  for (const uint32_t index : order_.utterances(position_.step)) {
    step.indices.push_back(index);
    step.num_bytes += source_.size_of(index).rows * source_.bytes_per_row();
  }
  step.outcomes.resize(step.indices.size());
  ++position_.step;
  return step;
}

bool Loader::has_room(const PendingStep& step) const {
  int64_t bytes = bytes_in_use_ + step.num_bytes;
  for (const PendingStep& pending : pending_) bytes += pending.num_bytes;
  return pending_.empty() || bytes <= options_.max_bytes;
}

void Loader::enqueue_steps() {
  std::unique_lock lock(mutex_);
  while (static_cast<int64_t>(pending_.size()) < options_.num_steps_ahead) {
    if (!next_) {
      // Drawing the order of an epoch takes a while, during which the threads continue.
      lock.unlock();
      next_ = make_step();
      lock.lock();
    }
    if (!has_room(*next_)) return;
    pending_.push_back(std::move(*next_));
    next_.reset();
    has_work_.notify_all();
  }
}

Loader::PendingStep Loader::take_first_step() {
  std::unique_lock lock(mutex_);
  step_done_.wait(lock, [&] { return pending_.front().is_done(); });
  PendingStep step = std::move(pending_.front());
  pending_.pop_front();
  return step;
}

LoadedStep Loader::next() {
  bytes_in_use_ = 0;  // a caller that requests the next step is done with the last
  enqueue_steps();
  PendingStep step = take_first_step();
  bytes_in_use_ = step.num_bytes;
  enqueue_steps();
  LoadedStep loaded{.position = step.position, .examples = {}, .skipped = {}};
  for (Outcome& outcome : step.outcomes) {
    if (auto* error = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(*error);
    if (auto* example = std::get_if<Example>(&outcome))
      loaded.examples.push_back(std::move(*example));
    if (auto* skipped = std::get_if<SkippedUtterance>(&outcome))
      loaded.skipped.push_back(std::move(*skipped));
  }
  return loaded;
}

// Returns the earliest step with an utterance that no thread has taken.
Loader::PendingStep* Loader::find_work() {
  for (PendingStep& step : pending_) {
    if (step.num_taken < step.indices.size()) return &step;
  }
  return nullptr;
}

void Loader::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    PendingStep* step = nullptr;
    has_work_.wait(lock, stop, [&] { return (step = find_work()) != nullptr; });
    if (step == nullptr) return;
    const size_t number = step->num_taken++;
    const int64_t index = step->indices[number];
    const int64_t epoch = step->position.epoch;
    lock.unlock();
    Outcome outcome = load(index, epoch);
    lock.lock();
    step->outcomes[number] = std::move(outcome);
    ++step->num_done;
    if (step->is_done()) step_done_.notify_all();
  }
}

Loader::Outcome Loader::load(int64_t index, int64_t epoch) const {
  try {
    std::variant<Example, SkippedUtterance> loaded = source_.load(index, epoch);
    if (auto* example = std::get_if<Example>(&loaded)) return std::move(*example);
    return std::get<SkippedUtterance>(std::move(loaded));
  } catch (...) {
    // The thread continues after any exception; next() throws it at its step.
    return std::current_exception();
  }
}

}  // namespace sotto::data
