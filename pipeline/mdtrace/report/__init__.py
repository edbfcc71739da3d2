"""The post-mortem of a job: metrics and charts as findings and one HTML page that needs no network.

`facts` reads the dataset, `findings` judges, `sections` lays out what the page shows, `page` writes it.
"""
