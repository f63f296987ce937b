#include "sotto/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "sotto/core/processors.h"

namespace sotto {

namespace {

// Keeps the exception of the lowest index, regardless of which thread failed first.
class FirstFailure {
 public:
  void keep(int64_t number, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && number_ < number) return;
    number_ = number;
    error_ = std::move(error);
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  int64_t number_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void parallel_for(int64_t count, const std::function<void(int64_t)>& work, int64_t num_threads) {
  if (num_threads == 0) num_threads = sotto::num_threads();
  std::atomic<int64_t> next = 0;
  std::atomic<bool> has_failed = false;
  FirstFailure failure;
  const auto take_turns = [&] {
    while (!has_failed) {
      const int64_t number = next++;
      if (number >= count) return;
      try {
        work(number);
      } catch (...) {
        failure.keep(number, std::current_exception());
        has_failed = true;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int64_t i = 1; i < std::min(num_threads, count); ++i) others.emplace_back(take_turns);
    take_turns();
  }
  failure.rethrow();
}

}  // namespace sotto
