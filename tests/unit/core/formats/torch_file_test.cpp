#include "sotto/core/formats/torch_file.h"

#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "support/temp_folder.h"
#include "support/thrown.h"
#include "unit/core/formats/torch_bytes.h"

namespace sotto {
namespace {

using test::bytes_of_number;
using test::contains;
using test::message_of;
using test::StoredValues;
using test::TempFolder;
using test::torch_old;
using test::torch_zip;
namespace pickled = test::pickled;

std::vector<float> floats_of(const TensorView* view) {
  if (view == nullptr) return {};
  std::vector<float> values(view->bytes.size() / sizeof(float));
  std::memcpy(values.data(), view->bytes.data(), values.size() * sizeof(float));
  return values;
}

// The values 0, 1, 2, ... of a storage.
StoredValues counting(const std::string& key, int64_t count) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) bytes += bytes_of_number(static_cast<float>(i));
  return {key, count, bytes};
}

// A pickle of one tensor "a".
std::string of_tensor(const pickled::Tensor& tensor) {
  return pickled::whole(pickled::dict({{"a", pickled::tensor(tensor)}}));
}

std::string torch_refusal(const std::string& content) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", content);
  const std::string message = message_of<DataError>([&] { TorchFile::open(path); });
  EXPECT_PRED2(contains, message, path.string());
  return message;
}

std::string refusal_of_tensor(const pickled::Tensor& tensor) {
  return torch_refusal(torch_zip(of_tensor(tensor), {counting("0", 6)}));
}

std::string refusal_of_object(const std::string& object) {
  return torch_refusal(torch_zip(pickled::whole(object), {counting("0", 6)}));
}

TEST(TorchFile, BothFormatsAreReadInPlace) {
  const TempFolder folder;
  for (const bool is_old : {false, true}) {
    const pickled::Storage first = {.is_old = is_old};
    const pickled::Storage second = {
        .class_name = "LongStorage", .key = "key", .num_values = 2, .is_old = is_old};
    const std::string pickle = pickled::whole(pickled::dict(
        {{"whole", pickled::tensor({.of = first})},
         {"part", pickled::tensor({.of = first, .offset = 2, .shape = {3}, .stride = {1}})},
         {"empty", pickled::tensor({.of = first, .offset = 9, .shape = {0, 4}})},
         {"scalar", pickled::tensor({.of = second, .offset = 1, .shape = {}, .stride = {}})}}));
    const std::vector<StoredValues> values = {
        counting("0", 6), {"key", 2, bytes_of_number<int64_t>(5) + bytes_of_number<int64_t>(-7)}};
    const auto path =
        folder.write("a.bin", is_old ? torch_old(pickle, values) : torch_zip(pickle, values));

    const TorchFile file = TorchFile::open(path);
    EXPECT_EQ(file.names(), (std::vector<std::string>{"empty", "part", "scalar", "whole"}));
    EXPECT_EQ(file.find("other"), nullptr);
    EXPECT_EQ(file.find("whole")->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(file.find("whole")->type, TensorType::kFloat32);
    EXPECT_EQ(floats_of(file.find("whole")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(floats_of(file.find("part")), (std::vector<float>{2, 3, 4}));
    // Both views of one storage lie in the map of the file.
    EXPECT_EQ(file.find("part")->bytes.data(), file.find("whole")->bytes.data() + 8);
    EXPECT_TRUE(file.find("empty")->bytes.empty());
    EXPECT_EQ(file.find("empty")->shape, (std::vector<int64_t>{0, 4}));
    const TensorView* scalar = file.find("scalar");
    EXPECT_EQ(scalar->type, TensorType::kInt64);
    EXPECT_TRUE(scalar->shape.empty());
    int64_t number = 0;
    ASSERT_EQ(scalar->bytes.size(), sizeof(number));
    std::memcpy(&number, scalar->bytes.data(), sizeof(number));
    EXPECT_EQ(number, -7);
  }
}

TEST(TorchFile, StridedTensorsAreCopied) {
  const TempFolder folder;
  const std::string pickle = pickled::whole(pickled::dict(
      {{"transposed", pickled::tensor({.shape = {3, 2}, .stride = {1, 3}})},
       {"every_second", pickled::tensor({.offset = 1, .shape = {3}, .stride = {2}})},
       {"expanded", pickled::tensor({.offset = 4, .shape = {3, 1, 2}, .stride = {0, 77, 1}})},
       {"one_row", pickled::tensor({.shape = {1, 6}, .stride = {int64_t{1} << 62, 1}})},
       {"one_column", pickled::tensor({.offset = 1, .shape = {3, 1}, .stride = {2, INT64_MAX}})}}));
  const auto path = folder.write("a.bin", torch_zip(pickle, {counting("0", 6)}));
  TorchFile opened = TorchFile::open(path);
  const TensorView* transposed = opened.find("transposed");
  const TorchFile file = std::move(opened);
  EXPECT_EQ(file.find("transposed"), transposed);
  EXPECT_EQ(floats_of(transposed), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(floats_of(file.find("every_second")), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ(floats_of(file.find("expanded")), (std::vector<float>{4, 5, 4, 5, 4, 5}));
  EXPECT_EQ(floats_of(file.find("one_row")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(floats_of(file.find("one_column")), (std::vector<float>{1, 3, 5}));
}

TEST(TorchFile, StateDictMayBeUnderAKey) {
  const TempFolder folder;
  const std::string state = pickled::ordered_dict() + "(" + pickled::text("a") +
                            pickled::tensor({}) + "u" +
                            pickled::dict({{"_metadata", pickled::ordered_dict()}}) + "b";
  for (const std::string key : {"state_dict", "model_state_dict", "model"}) {
    const std::string pickle = pickled::whole(pickled::dict(
        {{"epoch", "K\x03"}, {"rate", "G12345678"}, {"note", pickled::text("x")}, {key, state}}));
    const auto path = folder.write("a.bin", torch_zip(pickle, {counting("0", 6)}));
    EXPECT_EQ(TorchFile::open(path).names(), (std::vector<std::string>{"a"}));
  }
  const auto empty = folder.write("b.bin", torch_zip(pickled::whole("}"), {}));
  EXPECT_TRUE(TorchFile::open(empty).names().empty());
}

TEST(TorchFile, ParameterIsATensor) {
  const TempFolder folder;
  const std::string pickle = pickled::whole(
      pickled::dict({{"a", pickled::call(pickled::global("torch._utils", "_rebuild_parameter"),
                                         {pickled::tensor({}), "\x88", pickled::ordered_dict()})},
                     {"b", pickled::call(pickled::global("torch.nn.parameter", "Parameter"),
                                         {pickled::tensor({}), "\x88"})}}));
  const auto path = folder.write("a.bin", torch_zip(pickle, {counting("0", 6)}));
  const TorchFile file = TorchFile::open(path);
  EXPECT_EQ(floats_of(file.find("a")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(floats_of(file.find("b")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(TorchFile, EveryTypeHasItsSize) {
  const TempFolder folder;
  const std::vector<std::tuple<std::string, TensorType, int64_t>> types = {
      {"FloatStorage", TensorType::kFloat32, 4},     {"HalfStorage", TensorType::kFloat16, 2},
      {"BFloat16Storage", TensorType::kBFloat16, 2}, {"DoubleStorage", TensorType::kFloat64, 8},
      {"LongStorage", TensorType::kInt64, 8},        {"IntStorage", TensorType::kInt32, 4},
      {"ShortStorage", TensorType::kInt16, 2},       {"ByteStorage", TensorType::kUint8, 1},
      {"BoolStorage", TensorType::kBool, 1}};
  for (const auto& [name, type, size] : types) {
    const std::string pickle = of_tensor({.of = {.class_name = name}});
    const std::string bytes(static_cast<size_t>(6 * size), 'x');
    const auto path = folder.write("a.bin", torch_zip(pickle, {{"0", 6, bytes}}));
    const TorchFile file = TorchFile::open(path);
    EXPECT_EQ(file.find("a")->type, type);
    EXPECT_EQ(size_of(type), size);
    EXPECT_EQ(file.find("a")->bytes.size(), bytes.size());
  }
  EXPECT_PRED2(contains,
               torch_refusal(torch_zip(of_tensor({.of = {.class_name = "CharStorage"}}),
                                       {{"0", 6, "123456"}})),
               "the tensor 'a' has values of a torch.CharStorage");
}

TEST(TorchFile, TopFolderMayHaveAnyName) {
  const TempFolder folder;
  const std::string pickle = of_tensor({});
  const StoredValues values = counting("0", 6);
  const auto path = folder.write(
      "a.bin", test::zip_of({{"my model/data.pkl", pickle}, {"my model/data/0", values.bytes}},
                            {.is_64 = true, .comment = "c"}));
  EXPECT_EQ(TorchFile::open(path).names().size(), 1u);
  EXPECT_PRED2(contains, torch_refusal(test::zip_of({{"data.pkl", pickle}})), "with 0 pickles");
  EXPECT_PRED2(contains,
               torch_refusal(test::zip_of({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}})),
               "with 2 pickles");
  EXPECT_PRED2(contains, torch_refusal(test::zip_of({{"a/b/data.pkl", pickle}})), "with 0 pickles");
}

TEST(TorchFile, OtherFilesAreRefused) {
  const TempFolder folder;
  EXPECT_PRED2(contains, message_of<DataError>([&] { TorchFile::open(folder.path() / "no"); }),
               "/no: No such file or directory. Expected a file written by torch.save.");
  EXPECT_PRED2(contains, message_of<DataError>([&] { TorchFile::open(folder.path()); }),
               "it is not a regular file");
  EXPECT_PRED2(contains, torch_refusal(""), "it is empty");
  EXPECT_PRED2(contains, torch_refusal("hello"), "it begins like another kind of file");
  EXPECT_PRED2(contains, torch_refusal(pickled::whole("N")), "another kind of pickle");
  EXPECT_PRED2(contains, torch_refusal("PK\x03\x04 and so on"), "an archive without its end");
}

TEST(TorchFile, OtherByteOrdersAndVersionsAreRefused) {
  EXPECT_PRED2(contains,
               torch_refusal(test::zip_of({{"a/data.pkl", of_tensor({})}, {"a/byteorder", "big"}})),
               "values in another byte order");
  EXPECT_PRED2(contains, torch_refusal(test::old_head(1001, "\x89")),
               "values in another byte order");
  EXPECT_PRED2(contains, torch_refusal(test::old_head(1002)), "another version of the format");
}

TEST(TorchFile, TruncationAtEveryByteIsRefused) {
  const TempFolder folder;
  for (const bool is_old : {false, true}) {
    const std::string pickle = of_tensor({.of = {.is_old = is_old}});
    const std::string good =
        is_old ? torch_old(pickle, {counting("0", 6)}) : torch_zip(pickle, {counting("0", 6)});
    EXPECT_EQ(TorchFile::open(folder.write("a.bin", good)).names().size(), 1u);
    for (size_t size = 0; size < good.size(); ++size) torch_refusal(good.substr(0, size));
    if (is_old) {
      EXPECT_PRED2(contains, torch_refusal(good + "x"), "1 bytes after the last storage");
    }
  }
}

TEST(TorchFile, NothingIsExecuted) {
  const TempFolder folder;
  const std::string mark = (folder.path() / "ran").string();
  const std::string evil =
      pickled::call(pickled::global("os", "system"), {pickled::text("touch " + mark)});
  EXPECT_PRED2(contains, refusal_of_object(evil), "the global 'os.system'");
  EXPECT_PRED2(contains, refusal_of_object(pickled::dict({{"a", evil}})), "'os.system'");
  EXPECT_PRED2(contains, torch_refusal(torch_old(pickled::whole(pickled::dict({{"a", evil}})), {})),
               "'os.system'");
  EXPECT_PRED2(contains, torch_refusal(pickled::whole(evil)), "'os.system'");
  EXPECT_PRED2(contains,
               torch_refusal(test::old_head() + pickled::whole("}") + pickled::whole(evil)),
               "'os.system'");
  EXPECT_PRED2(contains,
               refusal_of_object(pickled::call(pickled::global("torch.storage", "_load_from_bytes"),
                                               {pickled::text("x")})),
               "'torch.storage._load_from_bytes'");
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST(TorchFile, NonTensorsAreRefused) {
  EXPECT_PRED2(contains, refusal_of_object(pickled::list({})),
               "a list. Expected a dict of tensors");
  EXPECT_PRED2(contains, refusal_of_object(pickled::tensor({})),
               "a torch._utils._rebuild_tensor_v2. Expected a dict of tensors");
  EXPECT_PRED2(contains, refusal_of_object(pickled::dict({{"epoch", "K\x01"}})),
               "a dict without tensors");
  EXPECT_PRED2(contains,
               refusal_of_object(pickled::dict({{"a", pickled::tensor({})}, {"epoch", "K\x01"}})),
               "'epoch' is a number. Expected a tensor.");
  EXPECT_PRED2(contains, refusal_of_object("}(K\x01" + pickled::tensor({}) + "u"),
               "a number for the name of a tensor");
  EXPECT_PRED2(contains, refusal_of_object(pickled::dict({{"a", pickled::storage({})}})),
               "a dict without tensors");
  EXPECT_PRED2(contains, refusal_of_object("}q\x01" + pickled::text("state_dict") + "h\x01s"),
               "'state_dict' is a dict");
  const std::string parameter = pickled::global("torch._utils", "_rebuild_parameter");
  EXPECT_PRED2(contains, refusal_of_object(pickled::dict({{"a", pickled::call(parameter, {})}})),
               "'a' is a torch._utils._rebuild_parameter");
  EXPECT_PRED2(contains, refusal_of_object(pickled::dict({{"a", pickled::call(parameter, {"N"})}})),
               "'a' is None");
}

TEST(TorchFile, DuplicateTensorNamesAreRefused) {
  EXPECT_PRED2(
      contains,
      refusal_of_object(pickled::dict({{"a", pickled::tensor({})}, {"a", pickled::tensor({})}})),
      "two tensors 'a'. Expected each name once.");
}

TEST(TorchFile, TensorWithUnexpectedPartsIsRefused) {
  const auto refusal = [](const std::vector<std::string>& parts) {
    const std::string tensor =
        pickled::call(pickled::global("torch._utils", "_rebuild_tensor_v2"), parts);
    return refusal_of_object(pickled::dict({{"a", tensor}}));
  };
  const std::string storage = pickled::storage({});
  const std::string zero = pickled::number(0);
  const std::string one = pickled::numbers({1});
  EXPECT_PRED2(contains, refusal({}), "other parts than those of a plain tensor");
  EXPECT_PRED2(contains, refusal({"N", zero, one, one, "\x89", "N"}), "other parts");
  EXPECT_PRED2(contains, refusal({storage, zero, one, one}), "other parts");
  EXPECT_PRED2(contains,
               refusal({storage, zero, one, one, "\x89", "N", pickled::dict({{"neg", "\x88"}})}),
               "other parts");
  const std::string numbers = "Expected up to 64 non-negative integers";
  EXPECT_PRED2(contains, refusal({storage, "N", one, one, "\x89", "N"}), numbers);
  EXPECT_PRED2(contains, refusal({storage, zero, "N", one, "\x89", "N"}), numbers);
  EXPECT_PRED2(contains, refusal({storage, zero, one, "K\x01", "\x89", "N", "N"}), numbers);
  EXPECT_PRED2(contains, refusal({storage, zero, pickled::tuple({"N"}), one, "\x89", "N"}),
               numbers);
}

TEST(TorchFile, OffsetsOutsideTheStorageAreRefused) {
  EXPECT_PRED2(contains, refusal_of_tensor({.offset = 1}),
               "the tensor 'a' has offset 1, shape [2, 3], stride [3, 1]. Expected a range within "
               "the 6 values of its storage.");
  const std::string outside = "Expected a range within the 6 values";
  EXPECT_PRED2(contains, refusal_of_tensor({.stride = {4, 1}}), outside);
  EXPECT_PRED2(contains, refusal_of_tensor({.offset = 6, .shape = {}, .stride = {}}), outside);
  EXPECT_PRED2(contains, refusal_of_tensor({.offset = INT64_MAX}), outside);
  EXPECT_PRED2(contains, refusal_of_tensor({.stride = {INT64_MAX, INT64_MAX}}), outside);
  EXPECT_PRED2(contains, refusal_of_tensor({.shape = {int64_t{1} << 60}, .stride = {1}}), outside);
  const std::string numbers = "Expected up to 64 non-negative integers, with one stride per size";
  EXPECT_PRED2(contains, refusal_of_tensor({.offset = -1}), numbers);
  EXPECT_PRED2(contains, refusal_of_tensor({.shape = {-2, 3}}), numbers);
  EXPECT_PRED2(contains, refusal_of_tensor({.shape = {2, -3}, .stride = {3, -1}}), numbers);
  EXPECT_PRED2(contains, refusal_of_tensor({.offset = 5, .stride = {-3, 1}}), numbers);
  EXPECT_PRED2(contains, refusal_of_tensor({.stride = {1}}), numbers);
}

TEST(TorchFile, AbsurdSizesAreRefused) {
  const int64_t huge = int64_t{1} << 40;
  EXPECT_PRED2(contains, refusal_of_tensor({.shape = {huge, huge}, .stride = {0, 0}}),
               "Expected a size that can be counted");
  EXPECT_PRED2(contains, refusal_of_tensor({.shape = {INT64_MAX}, .stride = {0}}),
               "Expected a size that can be counted");
  // Which can be counted, and would fill any memory.
  EXPECT_PRED2(contains, refusal_of_tensor({.shape = {huge}, .stride = {0}}),
               "the tensor 'a' repeats the values of its storage");
  EXPECT_PRED2(contains, refusal_of_tensor({.of = {.num_values = INT64_MAX}}),
               "24 bytes for storage '0'");
  const auto old_refusal = [](int64_t in_pickle, int64_t in_file) {
    const std::string pickle = of_tensor({.of = {.num_values = in_pickle, .is_old = true}});
    return torch_refusal(torch_old(pickle, {{"0", in_file, counting("0", 6).bytes}}));
  };
  EXPECT_PRED2(contains, old_refusal(INT64_MAX, INT64_MAX), "values for a storage of");
  EXPECT_PRED2(contains, old_refusal(6, INT64_MAX),
               "9223372036854775807 values for a storage of 6");
  EXPECT_PRED2(contains, old_refusal(huge, huge), "the data after its pickles ends after 32 bytes");
}

TEST(TorchFile, LongTuplesAndKeysAreRefused) {
  const std::vector<int64_t> ones(64, 1);
  const TempFolder folder;
  const auto path = folder.write(
      "a.bin",
      torch_zip(of_tensor({.offset = 3, .shape = ones, .stride = ones}), {counting("0", 6)}));
  EXPECT_EQ(floats_of(TorchFile::open(path).find("a")), (std::vector<float>{3}));
  const std::vector<int64_t> more(65, 1);
  EXPECT_PRED2(contains, refusal_of_tensor({.shape = more, .stride = more}),
               "Expected up to 64 non-negative integers");
  EXPECT_PRED2(contains, refusal_of_tensor({.of = {.key = std::string(101, '0')}}),
               "a storage with an unknown description");
}

TEST(TorchFile, MissingStoragesAreRefused) {
  EXPECT_PRED2(contains, torch_refusal(torch_zip(of_tensor({}), {})),
               "the values of 'a' (storage '0') are not in it");
  EXPECT_PRED2(contains, torch_refusal(torch_zip(of_tensor({}), {counting("0", 5)})),
               "20 bytes for storage '0'. Expected 6 values of a torch.FloatStorage.");
  const std::string old = of_tensor({.of = {.is_old = true}});
  EXPECT_PRED2(contains, torch_refusal(torch_old(old, {})), "(storage '0') are not in it");
  EXPECT_PRED2(contains, torch_refusal(torch_old(old, {counting("1", 6)})),
               "a storage that no tensor uses");
  EXPECT_PRED2(contains, torch_refusal(torch_old(old, {counting("0", 6), counting("0", 6)})),
               "the storage '0' twice");
  EXPECT_PRED2(contains, torch_refusal(test::old_head() + old + pickled::whole("N")),
               "no list of storages");
}

TEST(TorchFile, StoragesOfAnotherKindAreRefused) {
  const auto refusal = [](const std::string& name) {
    return refusal_of_object(pickled::dict({{"a", pickled::tensor({})}, {"b", name + "Q"}}));
  };
  const std::string unknown = "a storage with an unknown description";
  const std::string word = pickled::text("storage");
  const std::string type = pickled::global("torch", "FloatStorage");
  const std::string key = pickled::text("1");
  const std::string zero = pickled::number(0);
  EXPECT_PRED2(contains, refusal("N"), unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({word, type, key, key})), unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({key, type, key, key, zero})), unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({word, key, key, key, zero})), unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({word, type, zero, key, zero})), unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({word, type, key, key, key})), unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({word, type, key, key, pickled::number(-1)})),
               unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({word, type, key, key, zero, zero})), unknown);
  EXPECT_PRED2(contains,
               refusal(pickled::tuple(
                   {word, pickled::global("torch.nn.parameter", "Parameter"), key, key, zero})),
               unknown);
  EXPECT_PRED2(contains, refusal(pickled::tuple({word, type, pickled::text("0"), key, zero})),
               "the storage '0' is described in two ways");
}

TEST(TorchFile, CompressedArchivesAreRefused) {
  EXPECT_PRED2(contains,
               torch_refusal(test::zip_of({{"a/data.pkl", of_tensor({})},
                                           {"a/data/0", counting("0", 6).bytes, /*method=*/8}})),
               "its file 'a/data/0' is compressed");
}

}  // namespace
}  // namespace sotto
