// What every function of the runtime API does first: take part in the scheduling, then let another
// go first or not.
#pragma once

#include <memory>
#include <string>

#include "tests/emulation/machine.h"
#include "tests/emulation/runtime_api.h"
#include "tests/emulation/sanitizer.h"

struct CUstream_st : lockstep::emulation::Stream {};
struct CUevent_st : lockstep::emulation::Event {};

namespace lockstep::emulation {

class RuntimeCall {
 public:
  // `may_give_way` false: a call that answers at once on real machines too.
  explicit RuntimeCall(bool may_give_way = true);
  ~RuntimeCall();
  RuntimeCall(const RuntimeCall&) = delete;
  RuntimeCall& operator=(const RuntimeCall&) = delete;

  Machine* operator->() const { return &machine_; }
  Machine& machine() const { return machine_; }

  // cudaSuccess where the machine may be used: it has a driver and devices, and no fault was found.
  cudaError_t usable() const;
  // Remembers an error for cudaGetLastError.
  cudaError_t fail(cudaError_t status) const;
  // A fault of the program that the real API would not notice, or notice late.
  cudaError_t misuse(const std::string& text) const;
  // The stream behind a handle; nullptr, with a fault reported, where it is none of this machine.
  Stream* stream(cudaStream_t handle, const char* call) const;
  Event* event(cudaEvent_t handle, const char* call) const;
  // Waits until all that `stream` holds now is done, and orders what the caller does next behind
  // it.
  // `call` is for reports.
  cudaError_t wait_for(Stream& stream, const char* call) const;
  cudaError_t wait_for_device(int device, const char* call) const;
  // The calling thread's device, where the call makes a context if there is none yet.
  int context() const;

  // What CUDA answers in the middle of captures; cudaSuccess otherwise. An answer that is an error
  // ends the capture that it is about, which EndCapture then says.
  //
  // To what the thread that captures may not do meanwhile: wait, allocate, free.
  cudaError_t outside_capture() const;
  // To a wait for the stream, or a look at it.
  cudaError_t may_wait_for(const Stream& stream) const;
  // To a wait for the device.
  cudaError_t may_wait_for_device(int device) const;
  // To more work on the stream.
  cudaError_t may_enqueue(const Stream& stream) const;
  // Ends the capture with this error.
  cudaError_t end_capture(Capture& capture, cudaError_t status) const;

 private:
  Inside inside_;
  Machine& machine_;
};

int current_device();
void set_current_device(int device);
// The error of the first fault.
cudaError_t status_of(const Report& report);

}  // namespace lockstep::emulation
