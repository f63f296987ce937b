#include "sotto/core/formats/protobuf_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sotto/core/formats/protobuf_message.h"
#include "support/thrown.h"

namespace sotto {
namespace {

TEST(ProtobufReader, ReadsWhatIsWritten) {
  ProtobufMessage message;
  message.put_integer(3, 300);
  message.put_bytes(1, "text");
  message.put_float(2, -1.5F);
  message.put_double(4000, 2.0);
  ProtobufReader reader(message.bytes());
  auto field = reader.next();
  ASSERT_TRUE(field);
  EXPECT_EQ(field->number, 3u);
  EXPECT_EQ(field->integer, 300u);
  EXPECT_EQ(reader.next()->bytes, "text");
  EXPECT_EQ(reader.next()->as_float(), -1.5F);
  field = reader.next();
  EXPECT_EQ(field->number, 4000u);
  EXPECT_EQ(field->integer, 0x4000000000000000u);
  EXPECT_FALSE(reader.next());
}

TEST(ProtobufReader, RefusesWhatIsCutOff) {
  ProtobufMessage message;
  message.put_integer(1, 300);
  message.put_bytes(2, "four");
  message.put_float(3, 1.0F);
  message.put_double(4, 1.0);
  const std::string whole = message.bytes();
  const std::string_view view = whole;
  // Ends of fields: nothing is missing there.
  const std::vector<size_t> ends = {0, 3, 9, 14, whole.size()};
  for (size_t size = 0; size <= whole.size(); ++size) {
    const auto read_all = [&] {
      ProtobufReader reader(view.substr(0, size));
      while (reader.next()) {
      }
    };
    if (std::ranges::find(ends, size) != ends.end()) {
      EXPECT_NO_THROW(read_all()) << size;
    } else {
      EXPECT_THROW(read_all(), DataError) << size;
    }
  }
  // A number without an end, a length beyond the message, an unknown kind.
  for (const std::string& bytes :
       {std::string(12, '\xff'), std::string("\x12\x7f"), std::string("\x0b")}) {
    ProtobufReader reader(bytes);
    EXPECT_THROW(reader.next(), DataError);
  }
}

}  // namespace
}  // namespace sotto
