// SPDX-License-Identifier: MIT
// What arax/arax.h, which includes it, can't say in C: ARAX_RANGES for C++11 and later.
#ifndef ARAX_ARAX_HPP
#define ARAX_ARAX_HPP

#if __cplusplus >= 201103L
#include <arax/uapi.h>

// Whoever includes C's headers within extern "C" need not know of this one.
extern "C++" {
#include <initializer_list>

namespace arax_impl
{
// Of its result only the size is asked for.
template <class... Ranges> char (&as_many(const Ranges &...))[sizeof...(Ranges)];
}
}

// There are no compound literals in C++; the list's array stays until the call returns.
#define ARAX_RANGES(...)	(std::initializer_list<struct arax_range>{ __VA_ARGS__ }.begin()), \
				sizeof(arax_impl::as_many(__VA_ARGS__))
#endif

#endif // ARAX_ARAX_HPP
