// Attributes of an HDF5 object as plain values. Callers hold hdf5::lock().
//
// `where` names the object in messages ("file.h5: /train"). Reading an attribute that is absent
// gives nullopt; one of another kind or shape throws DataError with what was found and expected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5.h"

namespace lockstep::data::hdf5 {

std::optional<std::string> read_text(hid_t object, const std::string& name,
                                     const std::string& where);
std::optional<std::vector<std::string>> read_texts(hid_t object, const std::string& name,
                                                   const std::string& where);
std::optional<std::int64_t> read_integer(hid_t object, const std::string& name,
                                         const std::string& where);
// A scalar counts as a list of one.
std::optional<std::vector<double>> read_reals(hid_t object, const std::string& name,
                                              const std::string& where);

void write_text(hid_t object, const std::string& name, const std::string& value,
                const std::string& where);
void write_texts(hid_t object, const std::string& name, std::span<const std::string> values,
                 const std::string& where);
void write_integer(hid_t object, const std::string& name, std::int64_t value,
                   const std::string& where);
void write_reals(hid_t object, const std::string& name, std::span<const double> values,
                 const std::string& where);

// "uint8", "float64", "text", "compound": the name of an element type, for messages.
std::string describe_type(hid_t type);

}  // namespace lockstep::data::hdf5
