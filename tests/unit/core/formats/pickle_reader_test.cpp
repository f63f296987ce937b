#include "sotto/core/formats/pickle_reader.h"

#include <gtest/gtest.h>

#include <array>

#include "sotto/core/error.h"
#include "support/thrown.h"
#include "unit/core/formats/torch_bytes.h"

namespace sotto {
namespace {

using namespace std::string_literals;
using test::contains;
using test::message_of;
namespace pickled = test::pickled;

constexpr std::array<std::string_view, 2> kNames = {"torch.FloatStorage", "torch.make"};

// The bytes must outlive what is read.
Pickle read_body(const std::string& bytes) {
  return read_pickle(std::as_bytes(std::span(bytes)), kNames, "a.bin");
}

std::string pickle_refusal(const std::string& body) {
  const std::string bytes = pickled::whole(body);
  const std::string message = message_of<DataError>([&] { read_body(bytes); });
  EXPECT_PRED2(contains, message, "reading a.bin: ");
  return message;
}

TEST(PickleReader, ReadsWhatStateDictsAreMadeOf) {
  const std::string bytes =
      pickled::whole("](NK\x05M\x01\x02J\xff\xff\xff\xff\x88\x89\x8a\x00\x8a\x01\xfe"s +
                     pickled::number(int64_t{1} << 40) + pickled::text("\xC3\xA9") +
                     "G12345678)K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87]}e") +
      "behind";
  const Pickle pickle = read_body(bytes);
  EXPECT_EQ(pickle.num_bytes, bytes.size() - 6);
  const PickleValue& list = pickle.root();
  ASSERT_EQ(list.kind, PickleKind::kList);
  ASSERT_EQ(list.items.size(), 17u);
  EXPECT_EQ(pickle.item(list, 0).kind, PickleKind::kNone);
  const std::vector<int64_t> numbers = {5, 0x201, -1, 1, 0, 0, -2, int64_t{1} << 40};
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(pickle.item(list, i + 1).number, numbers[i]) << i;
    EXPECT_EQ(pickle.item(list, i + 1).kind,
              i == 3 || i == 4 ? PickleKind::kBool : PickleKind::kInt);
  }
  EXPECT_EQ(pickle.item(list, 9).text, "\xC3\xA9");
  EXPECT_EQ(pickle.item(list, 10).kind, PickleKind::kFloat);
  for (size_t size = 0; size < 4; ++size) {
    const PickleValue& tuple = pickle.item(list, 11 + size);
    EXPECT_EQ(tuple.kind, PickleKind::kTuple);
    ASSERT_EQ(tuple.items.size(), size);
    for (size_t i = 0; i < size; ++i)
      EXPECT_EQ(pickle.item(tuple, i).number, static_cast<int64_t>(i) + 1);
  }
  EXPECT_EQ(pickle.item(list, 15).kind, PickleKind::kList);
  EXPECT_EQ(pickle.item(list, 16).kind, PickleKind::kDict);
}

TEST(PickleReader, NumbersBeyond64BitsAreKeptAsBytes) {
  const std::string bytes = pickled::whole("\x8a\x09"s + "123456789");
  const Pickle pickle = read_body(bytes);
  EXPECT_EQ(pickle.root().kind, PickleKind::kBigInt);
  EXPECT_EQ(pickle.root().text, "123456789");
}

TEST(PickleReader, ReadsProtocolFour) {
  // A frame, short texts, objects remembered by their order, a global from the stack.
  const std::string bytes = "\x80\x04\x95"s + std::string(8, '\0') +
                            "}\x94(\x8c\x01k\x94\x8c\x05torch\x94" +
                            "\x8c\x04make\x94\x93\x94h\x01\x85R\x8c\x01l\x8d"s +
                            test::bytes_of_number(uint64_t{2}) + "xyu.";
  const Pickle pickle = read_body(bytes);
  const PickleValue& dict = pickle.root();
  ASSERT_EQ(dict.kind, PickleKind::kDict);
  ASSERT_EQ(dict.items.size(), 4u);
  EXPECT_EQ(pickle.item(dict, 0).text, "k");
  const PickleValue& call = pickle.item(dict, 1);
  EXPECT_EQ(call.kind, PickleKind::kCall);
  EXPECT_EQ(call.text, "torch.make");
  EXPECT_EQ(pickle.item(pickle.item(call, 0), 0).text, "k");
  EXPECT_EQ(pickle.item(dict, 3).text, "xy");
}

TEST(PickleReader, CallsAreReadAsValues) {
  const std::string bytes = pickled::whole(pickled::call(
      pickled::global("torch", "make"),
      {pickled::text("a") + "Q", pickled::global("torch", "FloatStorage"), pickled::number(7)}));
  const Pickle pickle = read_body(bytes);
  const PickleValue& call = pickle.root();
  ASSERT_EQ(call.kind, PickleKind::kCall);
  EXPECT_EQ(call.text, "torch.make");
  const PickleValue& arguments = pickle.item(call, 0);
  ASSERT_EQ(arguments.items.size(), 3u);
  EXPECT_EQ(pickle.item(arguments, 0).kind, PickleKind::kPersistent);
  EXPECT_EQ(pickle.item(pickle.item(arguments, 0), 0).text, "a");
  EXPECT_EQ(pickle.item(arguments, 1).kind, PickleKind::kGlobal);
  EXPECT_EQ(pickle.item(arguments, 1).text, "torch.FloatStorage");
}

TEST(PickleReader, OrderedDictIsADictEvenWithAttributes) {
  const std::string bytes = pickled::whole(pickled::ordered_dict() + pickled::text("a") + "K\x01s" +
                                           pickled::dict({{"_metadata", "K\x02"}}) + "b");
  const Pickle pickle = read_body(bytes);
  EXPECT_EQ(pickle.root().kind, PickleKind::kDict);
  ASSERT_EQ(pickle.root().items.size(), 2u);
  EXPECT_EQ(pickle.item(pickle.root(), 1).number, 1);
}

TEST(PickleReader, RefusesEveryUnlistedGlobal) {
  const std::string refusal = pickle_refusal(
      pickled::call(pickled::global("os", "system"), {pickled::text("touch /tmp/x")}));
  EXPECT_PRED2(contains, refusal, "the global 'os.system' (byte 2 of its pickle)");
  EXPECT_PRED2(contains, refusal, "nothing that could be run");
  EXPECT_PRED2(contains, refusal, "save it as safetensors");
  EXPECT_PRED2(contains, pickle_refusal("\x8c\x05posix\x8c\x06system\x93\x8c\x01x\x85R"s),
               "the global 'posix.system'");
  EXPECT_PRED2(contains, pickle_refusal(pickled::global("torch.storage", "_load_from_bytes")),
               "the global 'torch.storage._load_from_bytes'");
  EXPECT_PRED2(contains, pickle_refusal(pickled::global("builtins", "eval")), "'builtins.eval'");
  EXPECT_PRED2(contains, pickle_refusal(pickled::global("torch", "FloatStorage.x")),
               "'torch.FloatStorage.x'");
  EXPECT_PRED2(contains, pickle_refusal(pickled::global("", "\x1b[2J" + std::string(200, 'a'))),
               "'.?[2Jaa");
  EXPECT_PRED2(contains, pickle_refusal("K\x01K\x02\x93"), "a global whose name is not a string");
}

TEST(PickleReader, RefusesEveryOpcodeThatCreatesOtherObjects) {
  const std::string os = pickled::global("torch", "make");
  EXPECT_PRED2(contains, pickle_refusal("(" + pickled::text("id") + "ios\nsystem\n"),
               "the opcode INST (0x69)");
  EXPECT_PRED2(contains, pickle_refusal("(" + os + pickled::text("id") + "o"),
               "the opcode OBJ (0x6f)");
  EXPECT_PRED2(contains, pickle_refusal(os + ")\x81"), "the opcode NEWOBJ (0x81)");
  EXPECT_PRED2(contains, pickle_refusal(os + ")}\x92"), "the opcode NEWOBJ_EX (0x92)");
  EXPECT_PRED2(contains, pickle_refusal("\x82\x01"), "the opcode EXT1 (0x82)");
  EXPECT_PRED2(contains, pickle_refusal("\x83\x01\x01"), "the opcode EXT2 (0x83)");
  EXPECT_PRED2(contains, pickle_refusal("\x84\x01\x01\x01\x01"), "the opcode EXT4 (0x84)");
  EXPECT_PRED2(contains, pickle_refusal("P1\n"), "the opcode 0x50");
  EXPECT_PRED2(contains,
               pickle_refusal("C\x01"
                              "a"),
               "the opcode 0x43");
}

TEST(PickleReader, RefusesCallsOfNonGlobals) {
  EXPECT_PRED2(contains, pickle_refusal(pickled::text("os.system") + ")R"), "a call of a string");
  EXPECT_PRED2(contains, pickle_refusal(pickled::global("torch", "make") + "NR"),
               "a call without a tuple of arguments");
  EXPECT_PRED2(contains, pickle_refusal(pickled::call(pickled::global("torch", "make"), {}) + "}b"),
               "attributes of a torch.make");
  EXPECT_PRED2(contains,
               pickle_refusal(pickled::call(pickled::global("collections", "OrderedDict"),
                                            {pickled::list({})})),
               "an OrderedDict that begins with items");
}

TEST(PickleReader, RefusesBrokenPrograms) {
  for (const std::string body : {"", "t", "K\x01(s", "s", "a", "R", "b", "Q", "q\x01", "\x94", "e",
                                 "\x85", "(\x86", "\x93"}) {
    const std::string message = pickle_refusal(body);
    EXPECT_TRUE(contains(message, "without its")) << message;
  }
  EXPECT_PRED2(contains, pickle_refusal("NN"), "more than one object at its end");
  EXPECT_PRED2(contains, pickle_refusal("(N"), "more than one object at its end");
  EXPECT_PRED2(contains, pickle_refusal("h\x07"), "the object 7, which it does not have");
  EXPECT_PRED2(contains,
               pickle_refusal("NK\x01"
                              "a"),
               "items for None");
  EXPECT_PRED2(contains, pickle_refusal("]NNs"), "items for a list");
  EXPECT_PRED2(contains, pickle_refusal("}(Nu"), "a key without its value");
  EXPECT_PRED2(contains, pickle_refusal(pickled::text("\xFF")), "a string that is not UTF-8");
  EXPECT_PRED2(contains, pickle_refusal("cos"), "its pickle ends after 6 bytes");
  EXPECT_PRED2(contains, pickle_refusal("X\xff\xff\xff\xff"),
               "Expected 4294967295 bytes starting at byte 7");
  EXPECT_PRED2(contains, pickle_refusal("\x8d" + std::string(8, '\xff')),
               "Expected 18446744073709551615 bytes");
  EXPECT_PRED2(contains, pickle_refusal("\x8b\xff\xff\xff\xff"), "Expected 4294967295 bytes");
}

TEST(PickleReader, RefusesTruncationAtEveryByte) {
  const std::string good = pickled::whole(pickled::dict(
      {{"a", pickled::call(pickled::global("torch", "make"), {pickled::number(3)})}}));
  EXPECT_EQ(read_body(good).root().kind, PickleKind::kDict);
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string cut = good.substr(0, size);
    EXPECT_PRED2(contains, message_of<DataError>([&] { read_body(cut); }), "its pickle ends after");
  }
}

TEST(PickleReader, BombsAreBounded) {
  // Each list holds the one before it twice: two to the power of 64 when written out.
  std::string doubled = "(]q\x01";
  for (int i = 0; i < 64; ++i) {
    doubled +=
        "](h\x01h\x01"
        "eq\x01";
  }
  const std::string bytes = pickled::whole(doubled + "t");
  EXPECT_EQ(read_body(bytes).values.size(), 66u);

  // One inside the other, without end: no more than a long list to us.
  const std::string deep = pickled::whole("N" + std::string(1'000'000, '\x85'));
  EXPECT_EQ(read_body(deep).values.size(), 1'000'001u);
  const std::string itself = pickled::whole(
      "]q\x01h\x01"
      "a");
  const Pickle pickle = read_body(itself);
  EXPECT_EQ(&pickle.item(pickle.root(), 0), &pickle.root());

  EXPECT_PRED2(contains, pickle_refusal(std::string(1000, '(')),
               "it is nested more than 200 levels deep");
  EXPECT_PRED2(contains, pickle_refusal(std::string(2'200'000, 'N')), "more than 2097152 objects");
  std::string memo = "N";
  for (uint32_t i = 0; i < 2'200'000; ++i) memo += "r" + test::bytes_of_number(i);
  EXPECT_PRED2(contains, pickle_refusal(memo), "more than 2097152 objects");
}

}  // namespace
}  // namespace sotto
