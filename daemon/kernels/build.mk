# SPDX-License-Identifier: MIT
# Manifests, signatures, the registry; and the kernels that come with Arax.

KERNELS_SRCS := $(addprefix daemon/kernels/,manifest.c module.c overlap.c registry.c signature.c steps.c work.c)

STD_SRCS   := $(addprefix daemon/kernels/std/,basic.c blackscholes.c cluster.c conv.c conv_dnn.c \
			fft.c grid.c histogram.c image.c memory_limit.c ml.c pool.c reduce.c scan.c scratch.c sort.c sparse.c vector.c)
STD_CL     := $(addprefix daemon/kernels/std/,vector.cl basic.cl blackscholes.cl image.cl reduce.cl \
			scan.cl sort.cl histogram.cl grid.cl fft.cl ml.cl cluster.cl nn.cl sparse.cl)
STD_CU     := $(addprefix daemon/kernels/std/,arax-std.cu std_gpu.h product_gpu.h vector.cu basic.cu image.cu \
			blackscholes.cu sparse.cu ml.cu nn.cu reduce.cu scan.cu sort.cu sort_keys.h histogram.cu \
			grid.cu cluster.cu fft.cu) \
	      libarax/include/arax/gpu.h
# Kernels that are launched by functions of our own, which have their image in them.
PASSES_CU  := $(addprefix daemon/kernels/std/,passes.cu passes_sum.cu passes_scan.cu passes_count.cu \
			passes_mean.cu passes_sort.cu passes.h sort_keys.h std_gpu.h) libarax/include/arax/gpu.h
NVCC       ?= $(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) $(shell command -v nvcc))
HIPCC      ?= $(shell command -v hipcc)

# Functions that call vendors' libraries, which are opened at run time: only headers; of ROCm's not
# even these.
has_header     = $(shell $(CC) $(2) -include $(1) -E -x c /dev/null >/dev/null 2>&1 && echo yes)
CLBLAST_HEADER := $(call has_header,clblast_c.h)
CLFFT_HEADER   := $(call has_header,clFFT.h)
CUBLAS_HEADER  := $(call has_header,cublas_v2.h,$(CUDA_INCLUDE))
CUFFT_HEADER   := $(call has_header,cufft.h,$(CUDA_INCLUDE))

PASSES_CUDA := $(if $(CUDA_HEADERS),$(NVCC))
PASSES_HIP  := $(if $(HIP_HEADERS),$(HIPCC))

STD_KERNEL := $(addprefix $(B)/lib/arax/kernels/arax-std.,so json cl \
		$(if $(NVCC),ptx) $(if $(HIPCC),co)) $(B)/lib/arax/kernels/arax-std-hipfft.so \
	      $(if $(CLFFT_HEADER),$(B)/lib/arax/kernels/arax-std-clfft.so) \
	      $(if $(CUFFT_HEADER),$(B)/lib/arax/kernels/arax-std-cufft.so) \
	      $(if $(PASSES_CUDA),$(B)/lib/arax/kernels/arax-std-passes-cuda.so) \
	      $(if $(PASSES_HIP),$(B)/lib/arax/kernels/arax-std-passes-hip.so)
# Implementations whose compiler or header is not here are not in the manifest.
STD_ABSENT := $(if $(NVCC),,arax-std.ptx) $(if $(HIPCC),,arax-std.co) \
	      $(if $(CLFFT_HEADER),,arax-std-clfft.so) $(if $(CUFFT_HEADER),,arax-std-cufft.so) \
	      $(if $(PASSES_CUDA),,arax-std-passes-cuda.so) $(if $(PASSES_HIP),,arax-std-passes-hip.so)

# PTX is compiled for the GPU by its driver, for any from this one on: the oldest that CUDA 13
# knows.  The driver must be as new as the toolkit.  A code object is for these alone.
CUDA_ARCH  ?= compute_75
HIP_ARCHS  ?= gfx906 gfx908 gfx90a gfx1030
# Results are to be the CPU's: no contraction to fused multiply-add.
NVCC_FLAGS := -arch=$(CUDA_ARCH) -fmad=false -Werror all-warnings -Ilibarax/include
HIPCC_FLAGS := $(HIP_ARCHS:%=--offload-arch=%) -O3 -ffp-contract=off -Wall -Werror -Ilibarax/include
# Some versions of clang leave a folder for temporary files behind for each architecture.
hip_genco = tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
	TMPDIR=$$tmp $(HIPCC) --genco $(HIPCC_FLAGS) -x hip

# Convolutions by oneDNN, whose library is opened at run time: only the header, of the version
# whose calls these are.
STD_DNN := $(shell printf '\043include <oneapi/dnnl/dnnl_version.h>\nDNNL_VERSION_MAJOR\n' | \
	     $(CC) -E -P -x c - 2>/dev/null | tail -n 1)

# Nobody asks for floating-point traps or errno; with them, a choice in a loop keeps it from
# being vectorised.
$(foreach f,$(STD_SRCS),$(eval CFLAGS_$(f:.c=) := -O3 -fno-trapping-math -fno-math-errno))

STD_DNN_FLAG := $(if $(filter 2,$(STD_DNN)),-DSTD_HAS_DNN)
CFLAGS_daemon/kernels/std/conv_dnn += $(STD_DNN_FLAG)
CFLAGS_selftests/unit/be_std += $(STD_DNN_FLAG)
ifneq ($(STD_DNN),2)
no-dnn:
	@echo 'arax-std computes convolutions without oneDNN: no headers of its version 2 (Debian: libdnnl-dev)'
.PHONY: no-dnn
ALL_TARGETS += no-dnn
endif

$(B)/lib/arax/kernels/arax-std.so: $(call objs,plain,$(STD_SRCS))
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -Wl,-z,defs -o $@ $^ -lm
	$(Q)chmod go-w $@ $(@D)
-include $(patsubst %.o,%.d,$(call objs,plain,$(STD_SRCS)))

# $(1): a file's name, $(2): its sources, $(3): what else they are compiled with
define vendor_calls
$(foreach f,$(2),$(eval CFLAGS_$(f:.c=) := $(3)))
$(B)/lib/arax/kernels/$(1).so: $(call objs,plain,$(2))
	@mkdir -p $$(@D)
	$$(say) LINK $$@
	$$(Q)$$(CC) -shared $$(LDFLAGS_plain) -Wl,-z,defs -o $$@ $$^
	$$(Q)chmod go-w $$@ $$(@D)
-include $(patsubst %.o,%.d,$(call objs,plain,$(2)))
endef
$(eval $(call vendor_calls,arax-std-clfft,$(addprefix daemon/kernels/std/,clfft.c fft_vendor.c),))
$(eval $(call vendor_calls,arax-std-cufft,$(addprefix daemon/kernels/std/,cufft.c fft_vendor.c),$(CUDA_INCLUDE)))
$(eval $(call vendor_calls,arax-std-hipfft,$(addprefix daemon/kernels/std/,hipfft.c fft_vendor.c),))

# $(1): cuda or hip, $(2): ptx or co, $(3): flags for the driver's header
define passes
$(call vendor_calls,arax-std-passes-$(1),$(addprefix daemon/kernels/std/,passes_$(1).c passes_gpu.c passes.c),)
CFLAGS_daemon/kernels/std/passes_$(1) := $(3) -DPASS_IMAGE='"$(B)/obj/passes.$(2)"'
$(call objs,plain,daemon/kernels/std/passes_$(1).c): $(B)/obj/passes.$(2)
$(B)/obj/passes.$(2): $(PASSES_CU)
endef
$(eval $(call passes,cuda,ptx,$(CUDA_INCLUDE)))
$(eval $(call passes,hip,co,))

$(B)/lib/arax/kernels/arax-std.json: daemon/kernels/std/arax-std.json daemon/kernels/leave-out \
				     $(B)/lib/arax/kernels/.absent
	$(say) JSON $@
	$(Q)daemon/kernels/leave-out $< $(STD_ABSENT) > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

BLAS_CU := $(addprefix daemon/kernels/blas/,arax-blas.cu blas.cu triangle.cu) libarax/include/arax/gpu.h
$(B)/lib/arax/kernels/arax-std.ptx: $(STD_CU)
$(B)/lib/arax/kernels/arax-blas.ptx: $(BLAS_CU)
$(addprefix $(B)/lib/arax/kernels/,arax-std.ptx arax-blas.ptx) $(B)/obj/passes.ptx:
	@mkdir -p $(@D)
	$(say) NVCC $@
	$(Q)$(NVCC) -ptx $(NVCC_FLAGS) -o $@.tmp $<
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

$(B)/lib/arax/kernels/arax-std.co: $(STD_CU)
$(B)/lib/arax/kernels/arax-blas.co: $(BLAS_CU)
$(addprefix $(B)/lib/arax/kernels/,arax-std.co arax-blas.co) $(B)/obj/passes.co:
	@mkdir -p $(@D)
	$(say) HIPCC $@
	$(Q)$(hip_genco) -o $@.tmp $<
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

no-ptx:
	@echo 'arax-std and arax-blas have no kernels for CUDA: no nvcc (CUDA_HOME= says where the CUDA Toolkit is)'
no-co:
	@echo 'arax-std and arax-blas have no kernels for HIP: no hipcc (Debian: hipcc)'
no-clblast:
	@echo 'products on OpenCL devices are our own: no headers of CLBlast (Debian: libclblast-dev)'
no-clfft:
	@echo 'Fourier transforms on OpenCL devices are our own: no headers of clFFT (Debian: libclfft-dev)'
no-cublas:
	@echo 'products on CUDA devices are our own: no headers of cuBLAS (CUDA_HOME= says where the CUDA Toolkit is)'
no-cufft:
	@echo 'Fourier transforms on CUDA devices are our own: no headers of cuFFT (CUDA_HOME= says where the CUDA Toolkit is)'
.PHONY: no-ptx no-co no-clblast no-clfft no-cublas no-cufft
ALL_TARGETS += $(if $(NVCC),,no-ptx) $(if $(HIPCC),,no-co) $(if $(CLBLAST_HEADER),,no-clblast) \
	       $(if $(CLFFT_HEADER),,no-clfft) $(if $(CUBLAS_HEADER),,no-cublas) \
	       $(if $(CUFFT_HEADER),,no-cufft)

# One file: a device compiles it in one go.
$(B)/lib/arax/kernels/arax-std.cl: $(STD_CL)
$(addprefix $(B)/lib/arax/kernels/,arax-std.cl arax-blas.cl):
	@mkdir -p $(@D)
	$(say) CAT $@
	$(Q)for f in $^; do echo "#line 1 \"$${f##*/}\""; cat $$f; done > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

ALL_TARGETS += $(STD_KERNEL)

# Tiles by OpenBLAS: the one on OpenMP, by its own path (what libopenblas.so.0 is
# otherwise, is the machine's choice).  It starts no thread as long as each calling thread
# asks for one only.  The one on pthreads starts a thread a CPU in whoever loads it, and
# the serial one gives wrong results to two threads that call it at once.
BLAS_HEADER := $(firstword $(wildcard /usr/include/*/openblas-openmp/cblas.h))
BLAS_LIB    := $(firstword $(wildcard /usr/lib/*/openblas-openmp/libopenblas.so.0))
# Only processors need it.
BLAS_CPU    := $(and $(BLAS_HEADER),$(BLAS_LIB))
BLAS_KERNEL := $(addprefix $(B)/lib/arax/kernels/arax-blas.,$(if $(BLAS_CPU),so) json cl \
		 $(if $(NVCC),ptx) $(if $(HIPCC),co)) \
	       $(B)/lib/arax/kernels/arax-blas-rocblas.so \
	       $(if $(CLBLAST_HEADER),$(B)/lib/arax/kernels/arax-blas-clblast.so) \
	       $(if $(CUBLAS_HEADER),$(B)/lib/arax/kernels/arax-blas-cublas.so)
BLAS_ABSENT := $(if $(BLAS_CPU),,arax-blas.so) $(if $(NVCC),,arax-blas.ptx) $(if $(HIPCC),,arax-blas.co) \
	       $(if $(CLBLAST_HEADER),,arax-blas-clblast.so) $(if $(CUBLAS_HEADER),,arax-blas-cublas.so)

# Made anew when a compiler or a header comes or goes, and nothing is run when none does.
ABSENT := $(strip $(STD_ABSENT) $(BLAS_ABSENT))
ifneq ($(ABSENT),$(shell cat $(B)/lib/arax/kernels/.absent 2>/dev/null))
.PHONY: $(B)/lib/arax/kernels/.absent
endif
$(B)/lib/arax/kernels/.absent:
	@mkdir -p $(@D)
	@echo '$(ABSENT)' > $@

$(eval $(call vendor_calls,arax-blas-clblast,$(addprefix daemon/kernels/blas/,clblast.c vendor.c),))
$(eval $(call vendor_calls,arax-blas-cublas,$(addprefix daemon/kernels/blas/,cublas.c vendor.c),$(CUDA_INCLUDE)))
$(eval $(call vendor_calls,arax-blas-rocblas,$(addprefix daemon/kernels/blas/,rocblas.c vendor.c),))

ifneq ($(BLAS_CPU),)
CFLAGS_daemon/kernels/blas/blas := -O3 -isystem $(dir $(BLAS_HEADER))
$(B)/lib/arax/kernels/arax-blas.so: $(call objs,plain,daemon/kernels/blas/blas.c)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS_plain) -Wl,-z,defs,-rpath,$(patsubst %/,%,$(dir $(BLAS_LIB))) -o $@ $^ \
		$(BLAS_LIB) -lgomp
	$(Q)chmod go-w $@ $(@D)
-include $(patsubst %.o,%.d,$(call objs,plain,daemon/kernels/blas/blas.c))
else
ALL_TARGETS += no-blas
endif
no-blas:
	@echo 'arax-blas has no kernels for processors: no OpenBLAS (Debian: libopenblas-openmp-dev)'
.PHONY: no-blas

$(B)/lib/arax/kernels/arax-blas.json: daemon/kernels/blas/arax-blas.json daemon/kernels/leave-out \
				      $(B)/lib/arax/kernels/.absent
	$(say) JSON $@
	$(Q)daemon/kernels/leave-out $< $(BLAS_ABSENT) > $@.tmp
	$(Q)chmod 644 $@.tmp && mv $@.tmp $@

$(B)/lib/arax/kernels/arax-blas.cl: $(addprefix daemon/kernels/blas/,blas.cl triangle.cl)

ALL_TARGETS += $(BLAS_KERNEL)

install-kernels: $(STD_KERNEL) $(BLAS_KERNEL)
	install -d -m 755 "$(DESTDIR)$(PREFIX)/lib/arax/kernels" "$(DESTDIR)$(PREFIX)/include/arax"
	install -m 644 $(STD_KERNEL) $(BLAS_KERNEL) "$(DESTDIR)$(PREFIX)/lib/arax/kernels/"
	install -m 644 $(addprefix libarax/include/arax/,kernel.h gpu.h stream.h) "$(DESTDIR)$(PREFIX)/include/arax/"
INSTALL_TARGETS += install-kernels
.PHONY: install-kernels

include daemon/kernels/rodinia/build.mk
