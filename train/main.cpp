#include "train/command/program.h"

int main(int argc, char** argv) {
  return lockstep::train::run_program(argc, argv);
}
