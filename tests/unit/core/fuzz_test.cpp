// Files of weights and arrays with some bytes broken at random: what comes of one is a DataError or
// a file whose every byte lies in it and can be read. Two seconds a reader, or as many as
// SOTTO_FUZZ_SECONDS says. The n-th file is the same in every run. After a crash it is still there,
// in the temporary folder.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <functional>

#include "sotto/core/formats/safetensors.h"
#include "sotto/core/formats/torch_file.h"
#include "support/mutator.h"
#include "support/reader_checks.h"
#include "support/reader_samples.h"
#include "support/temp_folder.h"

namespace sotto {
namespace {

using test::Mutator;
using test::run_rounds;
using test::TempFolder;
using test::TorchForm;

// Where a file that is open lies in memory. A sanitizer does not see what is read behind its end
// in its last page.
std::span<const std::byte> mapping_of(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!line.ends_with(path.string())) continue;
    const auto start = std::stoull(line, nullptr, 16);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the system says it in digits
    return {reinterpret_cast<const std::byte*>(start), std::filesystem::file_size(path)};
  }
  return {};
}

// Whether bytes lie in a mapping, or apart from it as a copy does.
bool is_inside_or_apart(std::span<const std::byte> bytes, std::span<const std::byte> mapping) {
  constexpr size_t kPage = 4096;
  const std::byte* end = mapping.data() + mapping.size();
  const std::byte* end_of_pages = mapping.data() + (mapping.size() + kPage - 1) / kPage * kPage;
  const std::byte* last = bytes.data() + bytes.size();
  return (bytes.data() >= mapping.data() && last <= end) || last <= mapping.data() ||
         bytes.data() >= end_of_pages;
}

// What a reader gives out of an open file lies in its mapping or apart from it.
test::OnBytes expect_in_mapping(const std::filesystem::path& path) {
  return [path, mapping = std::span<const std::byte>()](std::span<const std::byte> bytes) mutable {
    if (mapping.empty()) mapping = mapping_of(path);
    EXPECT_FALSE(mapping.empty());
    EXPECT_TRUE(bytes.empty() || is_inside_or_apart(bytes, mapping));
  };
}

void run_files(
    const std::function<std::string(Mutator&)>& make,
    const std::function<void(const std::filesystem::path&, const test::OnBytes&)>& check) {
  const TempFolder folder;
  const auto path = folder.path() / "broken";
  run_rounds(
      [&](Mutator& mutator) {
        // A new file each time: to write over one waits for the disk.
        std::filesystem::remove(path);
        folder.write("broken", make(mutator));
        check(path, expect_in_mapping(path));
      },
      path.string());
}

TEST(Fuzz, SafetensorsFiles) {
  const std::string good = test::safetensors_sample();
  run_files([&](Mutator& mutator) { return mutator.mutate(good); },
            test::check_tensor_file<SafetensorsFile>);
}

TEST(Fuzz, NpyFiles) {
  const std::vector<std::string> headers = test::npy_headers();
  run_files(
      [&](Mutator& mutator) {
        const uint64_t version = 1 + mutator.below(3);
        const std::string& header = headers[mutator.below(headers.size())];
        return mutator.mutate(test::npy_sample(header, version));
      },
      // It is read, not mapped.
      [](const std::filesystem::path& path, const test::OnBytes&) { test::check_npy(path); });
}

TEST(Fuzz, TorchFiles) {
  // In every second round the pickle alone is broken, so that the archive around it is whole.
  run_files(
      [&](Mutator& mutator) {
        const auto form = static_cast<TorchForm>(mutator.below(3));
        const std::string pickle = test::pickle_sample(form == TorchForm::kOld);
        return mutator.below(2) == 0 ? test::torch_sample(mutator.mutate(pickle), form)
                                     : mutator.mutate(test::torch_sample(pickle, form));
      },
      test::check_tensor_file<TorchFile>);
}

// In memory of exactly their size, where a sanitizer detects one byte too many.
TEST(Fuzz, PicklesAndArchives) {
  const std::string pickle = test::pickle_sample(/*is_old=*/false);
  const std::array archives = {test::torch_zip(pickle, {}),
                               test::torch_zip(pickle, {}, {.is_64 = true, .comment = "abc"})};
  const auto read = [&](Mutator& mutator) {
    const uint64_t kind = mutator.below(3);
    const std::string broken = mutator.mutate(kind == 2 ? pickle : archives[kind]);
    const std::vector<char> copy(broken.begin(), broken.end());
    const std::span<const std::byte> bytes = std::as_bytes(std::span(copy));
    kind == 2 ? test::check_pickle(bytes, "name") : test::check_zip(bytes, "name");
  };
  run_rounds(read, "name");
}

// The header checksums are corrected in every second round, so that the rest is reached.
TEST(Fuzz, TarArchives) {
  const std::string good = test::tar_sample();
  const auto read = [&](Mutator& mutator) {
    const auto change = [&](const std::string& part) {
      return mutator.below(4) == 0 ? mutator.mutate(part) : part;
    };
    const std::string broken =
        mutator.below(2) == 0 ? test::tar_sample(change) : mutator.mutate(good);
    const std::vector<char> copy(broken.begin(), broken.end());
    test::check_tar(std::as_bytes(std::span(copy)), "name");
  };
  run_rounds(read, "name");
}

// Archives, and settings in archives that are whole but for them.
TEST(Fuzz, NemoArchives) {
  const std::string config = test::nemo_config_sample();
  const std::string good = test::nemo_sample(config);
  const std::string packed = test::gzip_of(good);
  const auto read = [&](Mutator& mutator) {
    const uint64_t kind = mutator.below(3);
    if (kind == 0) {
      const std::string broken = mutator.mutate(packed);
      return test::check_gzip(std::as_bytes(std::span(broken)), "name");
    }
    const std::string broken =
        kind == 1 ? mutator.mutate(good) : test::nemo_sample(mutator.mutate(config));
    const std::vector<char> copy(broken.begin(), broken.end());
    test::check_nemo(std::as_bytes(std::span(copy)), "name");
  };
  run_rounds(read, "name");
}

}  // namespace
}  // namespace sotto
