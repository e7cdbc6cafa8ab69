// What the time of a training step went into, on one rank; seconds.
#pragma once

namespace lockstep::train {

// compute + exposed + wake_up + data_wait + summary_wait is the step, but for what lies between
// them. The thread that computes also waits: what it waits for is not hidden.
struct StepParts {
  double step = 0;     // from its beginning to its end
  double compute = 0;  // forward, backward and update
  double exposed = 0;  // the thread waited while a bucket of gradients travelled
  double wake_up = 0;  // it waited for a bucket that had not set out, or that had arrived already
  double data_wait = 0;
  double summary_wait = 0;   // for the summary that closes the step
  double communication = 0;  // while any bucket travelled: hidden + exposed

  double hidden() const { return communication - exposed; }
  // Of the communication, how much lay behind computation; 1 where there was none.
  double overlap() const { return communication > 0 ? hidden() / communication : 1; }
  StepParts& operator+=(const StepParts& other) {
    step += other.step;
    compute += other.compute;
    exposed += other.exposed;
    wake_up += other.wake_up;
    data_wait += other.data_wait;
    summary_wait += other.summary_wait;
    communication += other.communication;
    return *this;
  }
};

}  // namespace lockstep::train
