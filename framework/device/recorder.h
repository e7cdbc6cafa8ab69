// Recorder: is told what a rank's thread does while the context has one; for timelines. Without one
// an operation costs a branch more.
#pragma once

#include <string_view>

#include "framework/device/context.h"

namespace lockstep::device {

class Recorder {
 public:
  virtual ~Recorder() = default;
  // The thread enters a part of the model, or the gradient of an operation, and leaves it; nested.
  // `part` is the name of a module, empty outside of all; `operation` is empty for a whole module.
  // What the names view must live as long as the recording is used.
  virtual void enter(std::string_view part, std::string_view operation) = 0;
  virtual void leave() = 0;
  // The part that was entered last and not left.
  virtual std::string_view part() const = 0;
};

// Between its beginning and its end the thread is in `part`.
class RecordedPart {
 public:
  RecordedPart(const Context& context, std::string_view part, std::string_view operation = {})
      : recorder_(context.recorder()) {
    if (recorder_ != nullptr) recorder_->enter(part, operation);
  }
  ~RecordedPart() {
    if (recorder_ != nullptr) recorder_->leave();
  }
  RecordedPart(const RecordedPart&) = delete;
  RecordedPart& operator=(const RecordedPart&) = delete;

 private:
  Recorder* recorder_;
};

}  // namespace lockstep::device
