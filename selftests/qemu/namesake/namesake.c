// SPDX-License-Identifier: GPL-2.0
/* A misc device of any name: another one that is to have it can't be registered meanwhile. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

static char *name = "namesake";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "the name that it takes (namesake)");

static const struct file_operations ops = {
	.owner	= THIS_MODULE,
	.llseek	= noop_llseek,
};

static struct miscdevice node = {
	.minor	= MISC_DYNAMIC_MINOR,
	.fops	= &ops,
};

static int __init namesake_init(void)
{
	node.name = name;
	return misc_register(&node);
}

static void __exit namesake_exit(void)
{
	misc_deregister(&node);
}

module_init(namesake_init);
module_exit(namesake_exit);

MODULE_DESCRIPTION("Takes the name of another device");
MODULE_LICENSE("GPL");
