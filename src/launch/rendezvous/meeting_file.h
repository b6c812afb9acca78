// The file through which ranks learn where rank 0 listens.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/rendezvous/host_identity.h"

namespace tessera {

// What rank 0 writes. One "key value" per line; the last line shows that the text is complete.
struct MeetingNote {
  std::vector<std::string> addresses;  // numeric, of all interfaces
  int port = 0;
  std::string token;
  HostIdentity host;
  pid_t pid = 0;
  uint64_t started = 0;  // start_time_of(pid)
};
std::string to_text(const MeetingNote& note);
std::optional<MeetingNote> parse_meeting_note(std::string_view text);

// Whether rank 0 is known to be dead, as far as a process `here` can tell without asking it.
bool surely_dead(const MeetingNote& note, const HostIdentity& here);

// At most 64 KiB of the file; empty when there is none or it cannot be read.
std::string read_meeting_file(const std::string& path);

// Owns the file at `path` while rank 0 waits.
class MeetingFile {
 public:
  // Replaces what a dead run left there. Throws ConfigError where the run may be alive or the file
  // is something else, Error where the file cannot be written.
  MeetingFile(std::string path, const MeetingNote& note);
  ~MeetingFile();  // removes it, unless somebody replaced it
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

 private:
  std::string path_;
  std::string text_;
};

}  // namespace tessera
