/* SPDX-License-Identifier: MIT */
/* passes_image.h - pass_image[]: the file PASS_IMAGE as it is, and a 0, as PTX is text */
__asm__(".pushsection .rodata\n"
	".balign 4096\n"	/* as a code object would have it */
	".globl pass_image\n"
	".hidden pass_image\n"
	".type pass_image, @object\n"
	"pass_image:\n"
	".incbin \"" PASS_IMAGE "\"\n"
	".byte 0\n"
	".size pass_image, . - pass_image\n"
	".popsection\n");
