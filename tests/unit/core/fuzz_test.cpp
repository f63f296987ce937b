// Files of weights and arrays with some bytes broken at random: what comes of one is a DataError or
// a file whose every byte lies in it and can be read. Two seconds a reader, or as many as
// SOTTO_FUZZ_SECONDS says. The n-th file is the same in every run. After a crash it is still there,
// in the temporary folder.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <functional>

#include "sotto/core/error.h"
#include "sotto/core/npy.h"
#include "sotto/core/pickle_reader.h"
#include "sotto/core/safetensors.h"
#include "sotto/core/tar_reader.h"
#include "sotto/core/torch_file.h"
#include "sotto/core/torch_state_dict.h"
#include "sotto/core/zip_reader.h"
#include "support/mutator.h"
#include "support/npy_bytes.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "unit/core/torch_bytes.h"

namespace sotto {
namespace {

using test::Mutator;
using test::run_rounds;
using test::TempFolder;
namespace pickled = test::pickled;

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

// Reads all that a file gives out.
template <class File>
void read_all(const std::filesystem::path& path) {
  const File file = File::open(path);
  const std::span<const std::byte> mapping = mapping_of(path);
  EXPECT_FALSE(mapping.empty());
  unsigned sum = 0;
  for (const std::string& name : file.names()) {
    const TensorView* view = file.find(name);
    EXPECT_EQ(num_bytes(view->type, view->shape), std::ssize(view->bytes)) << name;
    EXPECT_TRUE(view->bytes.empty() || is_inside_or_apart(view->bytes, mapping)) << name;
    for (const std::byte byte : view->bytes) sum += std::to_integer<unsigned>(byte);
  }
  [[maybe_unused]] const volatile unsigned kept = sum;
}

template <class File>
void run_files(const std::function<std::string(Mutator&)>& make) {
  const TempFolder folder;
  const auto path = folder.path() / "broken";
  run_rounds(
      [&](Mutator& mutator) {
        // A new file each time: to write over one waits for the disk.
        std::filesystem::remove(path);
        folder.write("broken", make(mutator));
        read_all<File>(path);
      },
      path.string());
}

TEST(Fuzz, SafetensorsFiles) {
  const TempFolder folder;
  const std::string values(64, 'v');
  const auto bytes = std::as_bytes(std::span(values));
  const std::vector<SafetensorsEntry> entries = {
      {.name = "a", .type = TensorType::kFloat32, .shape = {2, 3}, .bytes = bytes.first(24)},
      {.name = "b.weight", .type = TensorType::kBFloat16, .shape = {5}, .bytes = bytes.first(10)},
      {.name = "empty", .type = TensorType::kInt64, .shape = {0, 3}, .bytes = {}},
      {.name = "scalar", .type = TensorType::kInt64, .shape = {}, .bytes = bytes.first(8)}};
  const auto path = folder.path() / "good";
  write_safetensors(path, entries, {{"format", "pt"}});
  const std::string good = test::content_of(path);
  run_files<SafetensorsFile>([&](Mutator& mutator) { return mutator.mutate(good); });
}

TEST(Fuzz, NpyFiles) {
  const std::array headers = {
      std::string("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"),
      std::string("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"),
      std::string("{'descr': '<f2', 'fortran_order': False, 'shape': (24, 1), }")};
  const TempFolder folder;
  const auto path = folder.path() / "broken";
  run_rounds(
      [&](Mutator& mutator) {
        const uint64_t version = 1 + mutator.below(3);
        std::filesystem::remove(path);
        folder.write("broken", mutator.mutate(test::npy_bytes(headers[mutator.below(3)],
                                                              std::string(48, 'v'), version)));
        const NpyFile file = NpyFile::open(path);
        const TensorView& array = file.array();
        EXPECT_EQ(array.shape.size(), 2u);
        EXPECT_EQ(num_bytes(array.type, array.shape), std::ssize(array.bytes));
        EXPECT_TRUE(array.bytes.empty() || is_inside_or_apart(array.bytes, mapping_of(path)));
        unsigned sum = 0;
        for (const std::byte byte : array.bytes) sum += std::to_integer<unsigned>(byte);
        [[maybe_unused]] const volatile unsigned kept = sum;
      },
      path.string());
}

// A state dict with something of everything.
std::string sample_pickle(bool is_old) {
  const pickled::Storage floats = {.is_old = is_old};
  const pickled::Storage halves = {
      .class_name = "HalfStorage", .key = "1", .num_values = 4, .is_old = is_old};
  const std::string state =
      pickled::ordered_dict() + "(" + pickled::text("a") + pickled::tensor({.of = floats}) +
      pickled::text("transposed") +
      pickled::tensor({.of = floats, .shape = {3, 2}, .stride = {1, 3}}) + pickled::text("part") +
      pickled::tensor({.of = halves, .offset = 1, .shape = {1, 2}, .stride = {9, 1}}) +
      pickled::text("parameter") +
      pickled::call(pickled::global("torch._utils", "_rebuild_parameter"),
                    {pickled::tensor({.of = halves, .shape = {4}, .stride = {1}}), "\x88",
                     pickled::ordered_dict()}) +
      "u" + pickled::dict({{"_metadata", pickled::ordered_dict()}}) + "b";
  return pickled::whole(pickled::dict({{"epoch", "K\x07"}, {"state_dict", state}}));
}

TEST(Fuzz, TorchFiles) {
  const std::vector<test::StoredValues> values = {{"0", 6, std::string(24, 'f')},
                                                  {"1", 4, std::string(8, 'h')}};
  // In every second round the pickle alone is broken, so that the archive around it is whole.
  run_files<TorchFile>([&](Mutator& mutator) {
    const uint64_t form = mutator.below(3);
    const bool is_old = form == 2;
    const auto around = [&](const std::string& pickle) {
      return is_old ? torch_old(pickle, values) : torch_zip(pickle, values, {.is_64 = form == 1});
    };
    const std::string pickle = sample_pickle(is_old);
    return mutator.below(2) == 0 ? around(mutator.mutate(pickle)) : mutator.mutate(around(pickle));
  });
}

// In memory of just their size, where a sanitizer sees a byte too many.
TEST(Fuzz, PicklesAndArchives) {
  const std::string pickle = sample_pickle(/*is_old=*/false);
  const std::array archives = {test::torch_zip(pickle, {}),
                               test::torch_zip(pickle, {}, {.is_64 = true, .comment = "abc"})};
  const auto read = [&](Mutator& mutator) {
    const uint64_t kind = mutator.below(3);
    const std::string broken = mutator.mutate(kind == 2 ? pickle : archives[kind]);
    std::vector<std::byte> bytes(broken.size());
    std::ranges::copy(std::as_bytes(std::span(broken)), bytes.begin());
    if (kind == 2) {
      const Pickle result = read_pickle(bytes, state_dict_names(), "name");
      EXPECT_LE(result.num_bytes, bytes.size());
    } else {
      for (const auto& [name, content] : read_zip(bytes, "name")) {
        EXPECT_GE(content.data(), bytes.data()) << name;
        EXPECT_LE(content.data() + content.size(), bytes.data() + bytes.size()) << name;
      }
    }
  };
  run_rounds(read, "name");
}

// With the sums of headers made right again in every second round, so that the rest is reached.
TEST(Fuzz, TarArchives) {
  const auto make = [](Mutator* mutator) {
    const auto broken = [&](const std::string& text) {
      return mutator != nullptr && mutator->below(4) == 0 ? mutator->mutate(text) : text;
    };
    const auto file = [&](char type, const std::string& content) {
      test::TarHeader header{.name = broken("a/b.flac"), .type = type, .prefix = broken("p")};
      header.size = broken(fmt::format("{:011o}", content.size())).substr(0, 12);
      header.name.resize(std::min<size_t>(header.name.size(), 100));
      header.prefix.resize(std::min<size_t>(header.prefix.size(), 155));
      return test::tar_file(header, content);
    };
    return file('0', "one") + file('L', broken(std::string("long\0", 5))) + file('0', "two") +
           file('x', broken(test::pax_record("path", "p.flac") + test::pax_record("size", "5"))) +
           file('0', "three") + file('5', "") + file('2', "") + test::tar_end();
  };
  const std::string good = make(nullptr);
  const auto read = [&](Mutator& mutator) {
    const std::string broken = mutator.below(2) == 0 ? make(&mutator) : mutator.mutate(good);
    const std::vector<char> copy(broken.begin(), broken.end());
    const std::span<const std::byte> bytes = std::as_bytes(std::span(copy));
    walk_tar(bytes, "name", [&](const TarEntry& entry, size_t offset) {
      EXPECT_LT(offset, bytes.size());
      EXPECT_GE(entry.bytes.data(), bytes.data()) << entry.name;
      EXPECT_LE(entry.bytes.data() + entry.bytes.size(), bytes.data() + bytes.size()) << entry.name;
    });
  };
  run_rounds(read, "name");
}

}  // namespace
}  // namespace sotto
