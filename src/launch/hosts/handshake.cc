#include "launch/hosts/handshake.h"

#include <algorithm>

#include "base/error.h"
#include "base/hmac.h"
#include "launch/rendezvous/frame_body.h"
#include "launch/rendezvous/token.h"

namespace tessera {
namespace {

// Everything that either side has said, so that none of it can be exchanged.
std::string transcript(const std::string& word, const ControlFrame& greeting,
                       const std::string& guest_text, const std::string& host_text) {
  std::string text;
  put_text(text, word);
  put_long(text, greeting.run);
  put_long(text, greeting.generation);
  put_text(text, greeting.body);
  put_text(text, guest_text);
  put_text(text, host_text);
  return text;
}

}  // namespace

std::optional<ControlFrame> HostHandshake::take(ControlLink& link, const ControlFrame& frame) {
  if (!greeting_) {
    require(frame.kind == ControlKind::kHello, "its first frame is no hello");
    FrameBody body(frame.body);
    guest_text_ = body.text();
    greeting_ = frame;
    greeting_->body = body.text();
    body.end();
    host_text_ = random_token();
    link.send({.kind = ControlKind::kChallenge, .body = host_text_});
    return std::nullopt;
  }
  require(frame.kind == ControlKind::kProof, "it does not answer the challenge");
  const std::string proof =
      hmac_sha256(token_, transcript("guest", *greeting_, guest_text_, host_text_));
  if (!same_token(frame.body, proof)) {
    refuse(link,
           "it does not know the token of the run: give TESSERA_RUN_TOKEN the same value "
           "everywhere",
           true);
    throw Error("it does not know the token of the run");
  }
  return greeting_;
}

void welcome(ControlLink& link, const HostHandshake& handshake, const ControlFrame& frame) {
  const ControlFrame& greeting = *handshake.greeting_;
  const auto derived = [&](const std::string& word) {
    return hmac_sha256(handshake.token_,
                       transcript(word, greeting, handshake.guest_text_, handshake.host_text_));
  };
  ControlFrame answer = frame;
  answer.kind = ControlKind::kWelcome;
  answer.body.clear();
  put_text(answer.body, derived("host"));
  put_text(answer.body, frame.body);
  link.send(answer);
  link.use_key(derived("seal"));
}

void refuse(ControlLink& link, const std::string& reason, bool for_good) {
  std::string body;
  put_number(body, for_good ? 1 : 0);
  put_text(body, reason.substr(0, kMaxGreetingBytes / 2));
  link.send({.kind = ControlKind::kRefused, .body = body});
}

ControlFrame introduce(ControlLink& link, const std::string& token, const ControlFrame& greeting,
                       Deadline deadline) {
  const std::string guest_text = random_token();
  ControlFrame hello = greeting;
  hello.kind = ControlKind::kHello;
  hello.body.clear();
  put_text(hello.body, guest_text);
  put_text(hello.body, greeting.body);
  link.send(hello);
  const auto next = [&](ControlKind wanted) {
    ControlFrame frame = link.await(deadline);
    if (frame.kind == ControlKind::kRefused) {
      FrameBody body(frame.body);
      const bool for_good = body.number() == 1;
      throw LinkRefused(body.text(), for_good);
    }
    require(frame.kind == wanted, "{} answers with a frame of kind {}", link.from(),
            static_cast<uint32_t>(frame.kind));
    return frame;
  };
  const std::string host_text = next(ControlKind::kChallenge).body;
  const auto derived = [&](const std::string& word) {
    return hmac_sha256(token, transcript(word, greeting, guest_text, host_text));
  };
  link.send({.kind = ControlKind::kProof, .body = derived("guest")});
  ControlFrame answer = next(ControlKind::kWelcome);
  FrameBody body(answer.body);
  require(same_token(body.text(), derived("host")), "{} does not know the token of the run",
          link.from());
  std::string rest = body.text();
  body.end();
  answer.body = std::move(rest);
  link.use_key(derived("seal"));
  return answer;
}

}  // namespace tessera
