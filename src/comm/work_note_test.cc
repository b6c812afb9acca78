#include "comm/work_note.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(WorkNoteTest, SaysWhatAStreamIsAt) {
  WorkNote note;
  EXPECT_EQ(note.text(), "");
  note.set_stream("compute");
  note.begin(17, 2, "linear", "layers.1.up");
  EXPECT_EQ(note.text(), "compute: instruction 17, linear 'layers.1.up', micro-batch 2");
  note.begin(0, -1, "adamw", "w");
  EXPECT_EQ(note.text(), "compute: instruction 0, adamw 'w'");
  note.end();
  EXPECT_EQ(note.text(), "");
  EXPECT_EQ(note.begun(), 2U);
}

TEST(WorkNoteTest, KeepsTheBeginningOfLongNames) {
  WorkNote note;
  note.set_stream("communication");
  note.begin(1, -1, std::string(100, 'o'), std::string(1000, 'n'));
  EXPECT_EQ(note.text(),
            "communic: instruction 1, " + std::string(24, 'o') + " '" + std::string(61, 'n') + "'");
}

// It is read from memory that a rank may have written anything to.
TEST(WorkNoteTest, ShowsNothingThatMovesACursor) {
  WorkNote note;
  note.set_stream("\x1b[2J");
  note.begin(1, -1, "\x1b", "\xff\n");
  EXPECT_EQ(note.text().find('\x1b'), std::string::npos);
  EXPECT_EQ(note.text().find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace tessera
